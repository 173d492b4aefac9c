// Tabs of one browser tell each other to which request the person was sent: a new tab is not let in, an open one may be.
// What another tab says is only which request to show: nothing is opened, focused or settled by it.

const ID = /^[A-Za-z0-9_-]{8,64}$/;
const channel = new BroadcastChannel("tmuxmcp");

/** The request that an address names; empty: none. */
export function requestIn(words) {
  const id = words.get("request") || "";
  return ID.test(id) ? id : "";
}

/** Has a tab that is let in show a request; `shown` is called if one does. */
export function passOn(id, shown) {
  channel.onmessage = ({ data }) => data?.shown === id && shown();
  channel.postMessage({ request: id });
}

/** Shows what other tabs were sent to; `show` tells whether it could. */
export function takeIn(show) {
  channel.onmessage = ({ data }) => {
    if (typeof data?.request === "string" && show(data.request)) channel.postMessage({ shown: data.request });
  };
}

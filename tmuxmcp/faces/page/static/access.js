// The person's token: had for the code in the address, kept for this tab, sent as a header. No cookie holds it.

const KEY = "tmuxmcp-token";
const SEAL = "tmuxmcp-seal";
let proven = false;
let visit = new AbortController(); // of all that is asked with the token, until it is forgotten

export class Refused extends Error {
  constructor(status, error) {
    super(error.message);
    this.status = status;
    this.code = error.code;
    this.hint = error.hint || "";
  }
}

/** What stands behind the # of the address. */
export function fragment() {
  return new URLSearchParams(location.hash.slice(1));
}

/** Takes the code out of the address, and exchanges it; true: this tab has a token. */
export async function enter() {
  const words = fragment();
  const code = words.get("code");
  if (code !== null) {
    words.delete("code");
    // Before anything else: neither the history nor a copied address shall hold it.
    history.replaceState(null, "", "/" + (words.size ? "#" + words : ""));
    const answer = await fetch("/page/enter", post({ code }, {}));
    if (!answer.ok) throw await refusal(answer);
    const { token, seal } = await answer.json();
    sessionStorage.setItem(KEY, token);
    sessionStorage.setItem(SEAL, seal);
    proven = true;
    visit.abort();
    visit = new AbortController();
  }
  return sessionStorage.getItem(KEY) !== null;
}

/** Has the server forget the token, then does so here; gives why the server could not be told, or nothing. */
export async function leave() {
  visit.abort(); // what is under way would be refused once the token is revoked
  try {
    await send("/page/leave", {});
  } catch (error) {
    return error;
  } finally {
    forget();
  }
}

export function forget() {
  visit.abort();
  sessionStorage.removeItem(KEY);
  sessionStorage.removeItem(SEAL);
}

/** The connection broke: who answers now may be somebody else. */
export function doubt() {
  proven = false;
}

/** Has whoever answers at this address prove that it is the server that gave the token, before it gets to see that. */
async function prove(signal) {
  if (proven || !crypto.subtle) return; // a browser has it on loopback and behind TLS; elsewhere nothing is to be had
  const nonce = crypto.randomUUID();
  const digest = hex(await crypto.subtle.digest("SHA-256", bytes(sessionStorage.getItem(KEY))));
  const answer = await fetch("/page/prove", post({ digest, nonce }, {}, signal));
  if (!answer.ok) throw await refusal(answer);
  const key = await crypto.subtle.importKey("raw", bytes(sessionStorage.getItem(SEAL)), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  const proof = hex(await crypto.subtle.sign("HMAC", key, bytes(nonce)));
  if ((await answer.json()).proof !== proof) throw new Error("Another program answers at this address.");
  proven = true;
}

const bytes = (text) => new TextEncoder().encode(text);
const hex = (buffer) => [...new Uint8Array(buffer)].map((byte) => byte.toString(16).padStart(2, "0")).join("");

/** Asks the server as this person; gives the answer, whose body is not read yet. */
export async function ask(path, value, signal) {
  return send(path, value, signal ? AbortSignal.any([signal, visit.signal]) : visit.signal);
}

async function send(path, value, signal) {
  await prove(signal);
  const answer = await fetch(path, post(value, { authorization: `Bearer ${sessionStorage.getItem(KEY)}` }, signal));
  if (!answer.ok) throw await refusal(answer);
  return answer;
}

export async function askJson(path, value, signal) {
  return (await ask(path, value, signal)).json();
}

function post(value, headers, signal) {
  return {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(value),
    cache: "no-store",
    credentials: "omit",
    redirect: "error",
    signal,
  };
}

async function refusal(answer) {
  let error = { code: "INTERNAL", message: `The server answered ${answer.status}.` };
  try {
    error = (await answer.json()).error;
  } catch {
    // it is no refusal of ours
  }
  return new Refused(answer.status, error);
}

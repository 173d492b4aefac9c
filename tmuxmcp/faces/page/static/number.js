// The number of this page: a session that it holds has it, too. It outlives a reload; a copy of the tab gets another.

const KEY = "tmuxmcp-page";
const LEAST = 1_000_000_000;

export const PAGE = Number(sessionStorage.getItem(KEY)) || LEAST + crypto.getRandomValues(new Uint32Array(1))[0];

// A copy of the tab copies this storage: there it stands only while the page is left.
sessionStorage.removeItem(KEY);
addEventListener("pagehide", () => sessionStorage.setItem(KEY, PAGE));
addEventListener("pageshow", () => sessionStorage.removeItem(KEY));

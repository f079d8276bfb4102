// Where the console is: at the root of its host, or under a path that a proxy has put before it.

/** The path before everything of the console's, as the server has written it into the page; mostly empty. */
export const prefix =
  typeof document === "undefined" ? "" : (document.querySelector<HTMLMetaElement>('meta[name="prefix"]')?.content ?? "");

/** The console's address for who calls it from elsewhere. */
export function address(): string {
  return window.location.origin + prefix;
}

// One way to ask the REST API: JSON in, JSON out, a ProblemError where it refuses. It keeps the token in memory only.
import { text } from "../model/text";
import { prefix } from "./place";
import type { Problem } from "./types";

let token = "";

/** From now on requests carry this token; empty: the session's cookie alone. */
export function rememberToken(given: string): void {
  token = given.trim();
}

/** The headers that say who is calling. */
export function identity(): Record<string, string> {
  return token ? { Authorization: `Bearer ${token}` } : {};
}

/** An answer that is not 2xx, with what the server said of it. */
export class ProblemError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail);
    this.name = "ProblemError";
  }
}

const UNREACHABLE: Problem = {
  type: "/api/v1/problems/unavailable",
  title: text.unreachable.title,
  status: 0,
  detail: text.unreachable.detail,
};

interface Settings {
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

/** One request; throws a ProblemError. */
export async function api<T>(method: string, path: string, settings: Settings = {}): Promise<T> {
  const answer = await send(method, path, settings);
  if (answer.status === 204) {
    return undefined as T;
  }
  return (await answer.json()) as T;
}

/** The same, with the answer itself, for streams. */
export async function send(method: string, path: string, { body, headers, signal }: Settings = {}): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(prefix + path, {
      method,
      headers: {
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
        ...identity(),
        ...headers,
      },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
      credentials: "same-origin",
    });
  } catch (error) {
    if (signal?.aborted) {
      throw error;
    }
    throw new ProblemError(UNREACHABLE);
  }
  if (!answer.ok) {
    throw new ProblemError(await problemOf(answer));
  }
  return answer;
}

async function problemOf(answer: Response): Promise<Problem> {
  try {
    return (await answer.json()) as Problem;
  } catch {
    return { ...UNREACHABLE, status: answer.status, detail: text.unreachable.answered(answer.status) };
  }
}

/** The path of an object or, without a name, of a list. */
export function pathOf(resource: string, namespace?: string, name?: string): string {
  const inside = namespace ? `/namespaces/${encodeURIComponent(namespace)}` : "";
  return `/api/v1${inside}/${resource}${name ? `/${encodeURIComponent(name)}` : ""}`;
}

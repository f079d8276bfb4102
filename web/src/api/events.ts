// Server-sent events, read from a fetch so that a token can go along. Pure: bytes in, events out.

export interface ServerEvent {
  id: string;
  event: string;
  data: string;
}

/** Takes pieces of a stream as they come and gives the events that are whole. */
export class EventParser {
  private rest = "";

  push(piece: string): ServerEvent[] {
    const parts = (this.rest + piece).replaceAll("\r\n", "\n").split("\n\n");
    this.rest = parts.pop() ?? "";
    return parts.map(read).filter((each) => each.event !== "");
  }
}

function read(text: string): ServerEvent {
  const found: ServerEvent = { id: "", event: "", data: "" };
  for (const line of text.split("\n")) {
    const at = line.indexOf(":");
    if (at <= 0) {
      continue; // a comment
    }
    const value = line.slice(at + 1).replace(/^ /, "");
    const field = line.slice(0, at);
    if (field === "id" || field === "event") {
      found[field] = value;
    } else if (field === "data") {
      found.data += value;
    }
  }
  return found;
}

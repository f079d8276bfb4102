// Times for people. Pure but for the clock that is passed in.

/** How long ago, in one or two units. */
export function ago(when: string | null | undefined, now: Date): string {
  if (!when) {
    return "";
  }
  const seconds = Math.max(0, Math.round((now.getTime() - new Date(when).getTime()) / 1000));
  if (seconds < 120) {
    return `${seconds}s`;
  }
  const minutes = Math.floor(seconds / 60);
  if (minutes < 120) {
    return `${minutes}m`;
  }
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours}h` : `${Math.floor(hours / 24)}d`;
}

/** A moment in the reader's own time zone. */
export function moment(when: string | null | undefined): string {
  return when ? new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" }).format(new Date(when)) : "";
}

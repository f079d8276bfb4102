// What is read out to people who do not see the page: at most once in five seconds, of each thing the latest.

const PAUSE = 5000;

export class Announcements {
  private readonly waiting = new Map<string, string>();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private quietUntil = 0;
  /** Where it is put for screen readers. */
  tell: (said: string) => void = () => undefined;

  /** Reads it out as soon as it is time; what was to be said of the same thing is out of date then. */
  say(about: string, said: string): void {
    this.waiting.set(about, said);
    this.timer ??= setTimeout(() => this.flush(), Math.max(0, this.quietUntil - Date.now()));
  }

  private flush(): void {
    this.timer = undefined;
    this.quietUntil = Date.now() + PAUSE;
    this.tell([...this.waiting.values()].join(" "));
    this.waiting.clear();
  }
}

export const announcements = new Announcements();

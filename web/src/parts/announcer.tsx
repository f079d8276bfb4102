// The one place of the page that screen readers read out by themselves, and how pages speak there.
import { type ReactElement, useEffect, useRef, useState } from "react";

import { announcements } from "../model/announcements";

export function Announcer(): ReactElement {
  const [said, setSaid] = useState("");
  useEffect(() => {
    announcements.tell = setSaid;
    return () => {
      announcements.tell = () => undefined;
    };
  }, []);
  return (
    <p className="ew-heard" aria-live="polite">
      {said}
    </p>
  );
}

/** Reads a sentence out whenever it has changed: not when the page shows it first, which is read as any page is. */
export function useAnnouncement(about: string, said: string): void {
  const before = useRef({ about, said });
  useEffect(() => {
    const known = before.current.about === about ? before.current.said : "";
    if (known && said && known !== said) {
      announcements.say(about, said);
    }
    before.current = { about, said };
  }, [about, said]);
}

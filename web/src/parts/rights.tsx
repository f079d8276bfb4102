// What the caller may do, as the API server answers it, and buttons that know it: who lacks the right sees why.
import { Button, type ButtonProps, Tooltip } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import type { ReactElement, ReactNode } from "react";
import { Link } from "react-router";

import { api } from "../api/client";
import type { Me } from "../api/types";
import { text } from "../model/text";

export interface Rights {
  /** Why the caller may not do it; empty where it is allowed. */
  why: (verb: string) => string;
}

/** The caller's rights on a kind, or on a part of its objects (`devices/status`); until the answer is there nothing is allowed. */
export function useRights(resource: string, namespace = ""): Rights {
  const where = namespace ? `&namespace=${encodeURIComponent(namespace)}` : "";
  const [kind = "", part] = resource.split("/");
  const of = `of=${encodeURIComponent(kind)}${part ? `&subresource=${encodeURIComponent(part)}` : ""}`;
  const asked = useQuery({
    queryKey: ["rights", resource, namespace],
    queryFn: () => api<Me>("GET", `/api/v1/me?${of}${where}`),
    staleTime: 30_000,
    refetchInterval: 30_000,
  });
  const user = asked.data?.user.name ?? "";
  const verbs = asked.data?.rights?.verbs;
  return { why: (verb) => (verbs ? (verbs[verb] ? "" : text.actions.noRight(user, verb, resource, namespace)) : text.loading) };
}

/** A button that stays in reach of the keyboard where it cannot be used, and tells why. */
export function GuardedButton({ why, ...given }: ButtonProps & { why: string }): ReactElement {
  const button = <Button {...given} isAriaDisabled={given.isDisabled || why !== ""} isDisabled={undefined} />;
  return why ? <Tooltip content={why}>{button}</Tooltip> : button;
}

/** A link that looks like a button, and is a button that tells why where it leads nowhere for the caller. */
export function GuardedLink({ to, why, variant, children }: { to: string; why: string; variant?: ButtonProps["variant"]; children: ReactNode }): ReactElement {
  return why ? (
    <GuardedButton why={why} variant={variant}>
      {children}
    </GuardedButton>
  ) : (
    <Button variant={variant} component={(given: object) => <Link {...given} to={to} />}>
      {children}
    </Button>
  );
}

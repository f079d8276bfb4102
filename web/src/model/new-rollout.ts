// The form of a new rollout as a custom resource. Pure.

export interface Draft {
  name: string;
  namespace: string;
  firmware: string;
  version: string;
  types: string;
  labels: string;
  canary: string;
  soak: string;
  manual: boolean;
  stop: string;
}

export const EMPTY: Draft = {
  name: "",
  namespace: "default",
  firmware: "",
  version: "",
  types: "",
  labels: "",
  canary: "1",
  soak: "60",
  manual: false,
  stop: "1",
};

/** The words in a list that commas part. */
export function words(list: string): string[] {
  return list.split(",").map((each) => each.trim()).filter(Boolean);
}

/** The labels of `a=b, c=d`. */
export function labelsOf(list: string): Record<string, string> {
  return Object.fromEntries(words(list).map((each) => {
    const at = each.indexOf("=");
    return at < 0 ? [each, ""] : [each.slice(0, at).trim(), each.slice(at + 1).trim()];
  }));
}

/** What is declared. */
export function rolloutOf(draft: Draft): { apiVersion: string; kind: string; metadata: { name: string; namespace: string }; spec: Record<string, unknown> } {
  const types = words(draft.types);
  const labels = labelsOf(draft.labels);
  const selector = {
    ...(types.length ? { types } : {}),
    ...(Object.keys(labels).length ? { labels: { matchLabels: labels } } : {}),
  };
  const canary = Number(draft.canary);
  const stop = Number(draft.stop);
  return {
    apiVersion: "edgewright.dev/v1alpha1",
    kind: "FirmwareRollout",
    metadata: { name: draft.name, namespace: draft.namespace },
    spec: {
      ...(Object.keys(selector).length ? { selector } : {}),
      firmware: draft.firmware,
      version: draft.version,
      ...(canary > 0
        ? { batches: [{ name: "canary", size: canary, soakSeconds: Number(draft.soak) || 0, ...(draft.manual ? { gate: { approval: "manual" } } : {}) }] }
        : {}),
      ...(stop > 0 ? { stop: [{ threshold: stop, action: "pause" }] } : {}),
    },
  };
}

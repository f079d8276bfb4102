"""Records what a real API server makes of the exchanges about built-in kinds: `python hack/builtin_exchanges.py`.

The unit tests of the embedded API server's rules compare with the record, which has one exchange a line.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.cluster.builtin_exchanges import quiet_namespace, recorded_form, sent  # noqa: E402  only the root makes them importable
from tests.cluster.undisturbed import undisturbed_cluster  # noqa: E402
from tests.unit.local.builtin.every_exchange import EXCHANGES  # noqa: E402
from tests.unit.local.builtin.exchanges import plain  # noqa: E402

TARGET = ROOT / "tests" / "unit" / "local" / "builtin" / "recorded.json"


def main() -> int:
    """Sends every exchange to a fresh control plane and writes the outcomes."""
    lines = []
    with undisturbed_cluster() as cluster:
        place = quiet_namespace(cluster)
        for number, (title, exchange) in enumerate(EXCHANGES.items()):
            *_, real = sent(exchange, cluster, place, f"x-{number}")
            found = recorded_form(plain(real, exchange), place, f"x-{number}")
            text = json.dumps(found, sort_keys=True, separators=(",", ":"))
            lines.append(f"{json.dumps(title)}: {text}")
    TARGET.write_text("{\n" + ",\n".join(sorted(lines)) + "\n}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The button in Python: what a portal's back end does when somebody clicks. Only the standard library is needed.

CONSOLE=http://127.0.0.1:8090 NAMESPACE=default python3 button.py KIND/NAME '{"spec": {"replicaCount": 2}}'
"""

import json
import os
import sys
import urllib.error
import urllib.request


def press(resource: str, body: dict[str, object]) -> dict[str, object]:
    """Applies a custom resource: made where it is missing, changed where it differs; pressing twice does no harm."""
    request = urllib.request.Request(
        f"{os.environ['CONSOLE']}/api/v1/namespaces/{os.environ['NAMESPACE']}/{resource}?fieldManager=portal",
        method="PUT",
        data=json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {os.environ['TOKEN']}", "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as refused:
        problem = json.load(refused)
        fields = "".join(f"\n  {each['pointer']}: {each['detail']}" for each in problem.get("errors", []))
        sys.exit(f"{problem['title']}: {problem['detail']}{fields}")


if __name__ == "__main__":
    print(json.dumps(press(sys.argv[1], json.loads(sys.argv[2])), indent=2))

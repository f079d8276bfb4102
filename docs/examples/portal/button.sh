#!/bin/sh
# The button by curl: apply a custom resource with the token in $TOKEN, which no process list shows. Repeating it does no harm.
#   CONSOLE=http://127.0.0.1:8090 NAMESPACE=default ./button.sh minimarts.charts.samutup.com/minimart-sample '{"spec": {"replicaCount": 2}}'
set -eu
printf 'Authorization: Bearer %s' "$TOKEN" | curl --silent --show-error --fail-with-body --max-time 30 \
  --request PUT --header @- --header 'Content-Type: application/json' --data "$2" \
  "$CONSOLE/api/v1/namespaces/$NAMESPACE/$1?fieldManager=portal"

{{- define "ledger.fullname" -}}
{{- printf "%s-ledger" .Release.Name | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- define "ledger.matchLabels" -}}
app.kubernetes.io/name: ledger
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: store
{{- end }}

{{- define "ledger.image" -}}
{{- $image := printf "%s:%s" .Values.image.repository (toString .Values.image.tag) -}}
{{- ternary $image (printf "%s/%s" .Values.image.registry $image) (empty .Values.image.registry) -}}
{{- end }}

{{- define "ledger.secretName" -}}
{{- default (include "ledger.fullname" .) (tpl .Values.auth.existingSecret .) -}}
{{- end }}

{{/* The password that is there already, the one that was asked for, or a new one. */}}
{{- define "ledger.password" -}}
{{- $found := lookup "v1" "Secret" .Release.Namespace (include "ledger.secretName" .) -}}
{{- if .Values.auth.password -}}
{{- .Values.auth.password | b64enc -}}
{{- else if and $found (hasKey $found.data "password") -}}
{{- index $found.data "password" -}}
{{- else -}}
{{- randAlphaNum 24 | b64enc -}}
{{- end -}}
{{- end }}

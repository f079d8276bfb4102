{{- define "minimart.labels" -}}
app.kubernetes.io/name: minimart
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

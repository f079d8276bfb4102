{{- define "edgewright.fullname" -}}
{{- if contains "edgewright" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-edgewright" .Release.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "edgewright.labels" -}}
app.kubernetes.io/name: edgewright
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "edgewright.hook" -}}
helm.sh/hook: pre-delete
helm.sh/hook-weight: "-5"
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded,hook-failed
{{- end }}

{{- define "edgewright.image" -}}
{{- if .Values.image.digest }}{{ .Values.image.repository }}@{{ .Values.image.digest }}{{ else }}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- /* Whether an installation has a capability: (list . "edge") */ -}}
{{- define "edgewright.has" -}}
{{- $root := index . 0 }}{{ if or (not $root.Values.controllers) (has (index . 1) $root.Values.controllers) }}true{{ end }}
{{- end }}

{{- define "edgewright.arguments" -}}
- {{ ternary "--leader-elect" "--no-leader-elect" .Values.leaderElection.enabled }}
- --lease-name={{ .Values.leaderElection.leaseName }}
- --flasher-image={{ .Values.flashjob.flasherImage | default (include "edgewright.image" .) }}
{{- if .Values.metrics.secure }}
- --metrics-secure
{{- if .Values.metrics.certificateSecret }}
- --metrics-cert-path=/etc/edgewright/metrics
{{- end }}
{{- end }}
{{- with .Values.controllers }}
- --controllers={{ join "," . }}
{{- end }}
{{- range .Values.watchNamespaces }}
- --watch-namespace={{ . }}
{{- end }}
{{- range .Values.flashjob.plainRegistries }}
- --plain-registry={{ . }}
{{- end }}
{{- range .Values.flashjob.tokenHosts }}
- --token-host={{ . }}
{{- end }}
{{- range .Values.flashjob.allow.flasherImages }}
- --allow-flasher-image={{ . }}
{{- end }}
{{- range .Values.flashjob.allow.pullSecrets }}
- --allow-pull-secret={{ . }}
{{- end }}
{{- range .Values.flashjob.allow.serviceAccounts }}
- --allow-service-account={{ . }}
{{- end }}
{{- range .Values.flashjob.allow.tolerations }}
- --allow-toleration={{ . }}
{{- end }}
{{- range .Values.flashjob.allow.podLabels }}
- --allow-pod-label={{ . }}
{{- end }}
{{- range .Values.flashjob.allow.podAnnotations }}
- --allow-pod-annotation={{ . }}
{{- end }}
{{- if not .Values.flashjob.checkSecrets }}
- --no-check-secrets
{{- end }}
{{- with .Values.flashjob.attestation }}
- --attestation={{ . }}
{{- end }}
{{- if .Values.flashjob.nat }}
- --nat
{{- end }}
{{- if .Values.flashjob.probe }}
- --probe
- --probe-every={{ .Values.flashjob.probeEvery }}
{{- end }}
{{- with .Values.webhook.url }}
- --webhook={{ . }}
- --webhook-secret-file=/etc/edgewright/webhook/{{ $.Values.webhook.secretKey }}
{{- if $.Values.webhook.plain }}
- --webhook-plain
{{- end }}
{{- end }}
{{- if .Values.charts.watchesConfigMap }}
- --watches=/etc/edgewright/charts/watches.yaml
{{- end }}
{{- range .Values.arguments }}
- {{ . | quote }}
{{- end }}
{{- end }}

{{- define "edgewright.gatewayarguments" -}}
{{- range .Values.gateway.arguments }}
- {{ . | quote }}
{{- end }}
{{- end }}

{{- define "edgewright.consolearguments" -}}
{{- if .Values.console.behindProxy }}
- --behind-proxy
{{- else }}
- --tls-cert=/etc/edgewright/console/tls.crt
- --tls-key=/etc/edgewright/console/tls.key
{{- end }}
{{- if .Values.console.sessionKeySecret }}
- --session-key-file=/etc/edgewright/session/{{ .Values.console.sessionKey }}
{{- end }}
{{- with .Values.console.oidc }}
{{- if .issuer }}
- --oidc-issuer={{ .issuer }}
- --oidc-client-id={{ .clientId | required "console.oidc.issuer needs console.oidc.clientId: as whom the provider knows the console" }}
- --external-url={{ $.Values.console.externalUrl | required "console.oidc.issuer needs console.externalUrl: where browsers reach the console" }}
{{- with .scope }}
- {{ printf "--oidc-scope=%s" . | quote }}
{{- end }}
{{- end }}
{{- with .impersonation.prefix }}
- {{ printf "--impersonate-prefix=%s" . | quote }}
{{- range $.Values.console.oidc.impersonation.groups }}
- {{ printf "--impersonate-group=%s" . | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- range .Values.console.arguments }}
- {{ . | quote }}
{{- end }}
{{- end }}

{{- /* Without a name, a rule would be about every group: where none is allowed there is none. */ -}}
{{- define "edgewright.impersonation" -}}
- apiGroups: [""]
  resources: [users]
  verbs: [impersonate]
{{- with .Values.console.oidc.impersonation }}
{{- if .groups }}
- apiGroups: [""]
  resources: [groups]
  verbs: [impersonate]
  resourceNames:
{{- $prefix := .prefix }}
{{- range .groups }}
  - {{ printf "%s%s" $prefix . | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "edgewright.consolemounts" -}}
- name: tmp
  mountPath: /tmp
{{- if not .Values.console.behindProxy }}
- name: certificate
  mountPath: /etc/edgewright/console
  readOnly: true
{{- end }}
{{- if .Values.console.sessionKeySecret }}
- name: session-key
  mountPath: /etc/edgewright/session
  readOnly: true
{{- end }}
{{- end }}

{{- define "edgewright.consolevolumes" -}}
- name: tmp
  emptyDir:
    medium: Memory
    sizeLimit: 1Mi
{{- if not .Values.console.behindProxy }}
- name: certificate
  secret:
    secretName: {{ .Values.console.tlsSecret | default (printf "%s-console-tls" (include "edgewright.fullname" .)) }}
{{- end }}
{{- with .Values.console.sessionKeySecret }}
- name: session-key
  secret:
    secretName: {{ . }}
{{- end }}
{{- end }}

{{- define "edgewright.mounts" -}}
{{- if .Values.metrics.certificateSecret }}
- name: metrics-certificate
  mountPath: /etc/edgewright/metrics
  readOnly: true
{{- end }}
{{- if .Values.webhook.url }}
- name: webhook-secret
  mountPath: /etc/edgewright/webhook
  readOnly: true
{{- end }}
{{- if .Values.charts.watchesConfigMap }}
- name: watches
  mountPath: /etc/edgewright/charts
  readOnly: true
{{- end }}
{{- end }}

{{- define "edgewright.volumes" -}}
{{- with .Values.metrics.certificateSecret }}
- name: metrics-certificate
  secret:
    secretName: {{ . }}
{{- end }}
{{- if .Values.webhook.url }}
- name: webhook-secret
  secret:
    secretName: {{ .Values.webhook.secretName | required "webhook.url needs webhook.secretName: the Secret that it is signed with" }}
{{- end }}
{{- with .Values.charts.watchesConfigMap }}
- name: watches
  configMap:
    name: {{ . }}
{{- end }}
{{- end }}

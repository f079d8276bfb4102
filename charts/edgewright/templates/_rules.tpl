{{- /* Generated from config/ and edgewright/api/capabilities.py; do not edit: make manifests */ -}}
{{- define "edgewright.rules.manager.namespaced" }}
# tells as Events what happens to an object, in the object's namespace
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- end }}
{{- define "edgewright.rules.manager.cluster" }}
{{- end }}
{{- define "edgewright.rules.flashjob.namespaced" }}
# reads the jobs, puts its finalizer on them, and deletes those whose ttl is over
- apiGroups: [application.flashjob.nbfc.io]
  resources: [flashjobs]
  verbs: [get, list, watch, patch, delete]
# writes the status
- apiGroups: [application.flashjob.nbfc.io]
  resources: [flashjobs/status]
  verbs: [patch]
# owns the Pods and Services of a job
- apiGroups: [application.flashjob.nbfc.io]
  resources: [flashjobs/finalizers]
  verbs: [update]
# finds the devices that Akri discovered
- apiGroups: [akri.sh]
  resources: [instances]
  verbs: [get, list, watch]
# runs one flash Pod per device
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, patch, delete]
# gives each flash Pod a Service, at which its device finds it
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, delete]
# starts no device while the fleet is frozen, nor beyond the limits of the rollout that a job is of
- apiGroups: [edgewright.dev]
  resources: [firmwarerollouts]
  verbs: [get, list, watch]
{{- if .Values.flashjob.checkSecrets }}
# sees whether the Secrets that a job names have their keys; --no-check-secrets does without
- apiGroups: [""]
  resources: [secrets]
  verbs: [get]
{{- end }}
{{- end }}
{{- define "edgewright.rules.flashjob.cluster" }}
# keeps the inventory: one Device per physical device
- apiGroups: [edgewright.dev]
  resources: [devices]
  verbs: [get, list, watch, create, patch]
# writes the claim of a Device and its records
- apiGroups: [edgewright.dev]
  resources: [devices/status]
  verbs: [patch]
# starts no device while the fleet is frozen, nor beyond the limits of the rollout that a job is of
- apiGroups: [edgewright.dev]
  resources: [fleets]
  verbs: [get, list, watch]
# sees whether a namespace goes and a node is out
- apiGroups: [""]
  resources: [namespaces, nodes]
  verbs: [get]
# waits while the original FlashJob operator holds its Lease
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, list]
{{- end }}
{{- define "edgewright.rules.rollout.namespaced" }}
# reads the rollouts, creates the one that recalls another, deletes those whose ttl is over, and notes on them what webhooks have told
- apiGroups: [edgewright.dev]
  resources: [firmwarerollouts]
  verbs: [get, list, watch, create, patch, delete]
# writes the status
- apiGroups: [edgewright.dev]
  resources: [firmwarerollouts/status]
  verbs: [patch]
# owns the FlashJobs of a rollout
- apiGroups: [edgewright.dev]
  resources: [firmwarerollouts/finalizers]
  verbs: [update]
# creates the FlashJobs of each batch
- apiGroups: [application.flashjob.nbfc.io]
  resources: [flashjobs]
  verbs: [get, list, watch, create, patch, delete]
{{- end }}
{{- define "edgewright.rules.rollout.cluster" }}
# selects the devices
- apiGroups: [edgewright.dev]
  resources: [devices]
  verbs: [get, list, watch]
{{- end }}
{{- define "edgewright.rules.flux.namespaced" }}
# reads what is to run, and how it is set up
- apiGroups: [flux-framework.org]
  resources: [fluxes, fluxsetups]
  verbs: [get, list, watch]
# reads what is to run, and deletes what is to be cleaned up when its command has ended
- apiGroups: [flux-framework.org]
  resources: [miniclusters]
  verbs: [get, list, watch, delete]
# writes the status
- apiGroups: [flux-framework.org]
  resources: [fluxes/status, fluxsetups/status, miniclusters/status]
  verbs: [patch]
# owns the objects of a mini-cluster
- apiGroups: [flux-framework.org]
  resources: [fluxes/finalizers, miniclusters/finalizers]
  verbs: [update]
# keeps the brokers' configuration, their names, and the Service of a command that serves a port
- apiGroups: [""]
  resources: [configmaps, services]
  verbs: [get, list, watch, create, patch, delete]
# runs the workers of a Flux
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [get, list, watch, create, patch, delete]
# runs the Pods of a MiniCluster, and the launcher of a Flux
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch, create, patch, delete]
# sees why a broker does not start and how the command ended, and runs the services of a MiniCluster
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, delete]
# keeps the certificate by which the brokers of a mini-cluster know each other, by its name
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create, patch]
{{- end }}
{{- define "edgewright.rules.flux.cluster" }}
{{- end }}
{{- define "edgewright.rules.edge.namespaced" }}
# creates the devices of approved requests, and keeps their labels and finalizers
- apiGroups: [management.project-flotta.io]
  resources: [edgedevices]
  verbs: [get, list, watch, create, patch]
# matches workloads and sets to devices, and puts its finalizer on them
- apiGroups: [management.project-flotta.io]
  resources: [edgedeployments, edgeworkloads, edgedevicegroups, edgedevicesets, edgedevicesignedrequest]
  verbs: [get, list, watch, patch]
# records a device that was decommissioned, so that it does not come back by itself
- apiGroups: [management.project-flotta.io]
  resources: [edgedevicesignedrequest]
  verbs: [create]
# decides who is offline, and removes the shards of replicas that are gone
- apiGroups: [edgewright.dev]
  resources: [edgeheartbeatshards]
  verbs: [get, list, watch, delete]
# keeps the versions of workloads, and which devices have got which
- apiGroups: [edgewright.dev]
  resources: [edgeworkloadrevisions]
  verbs: [get, list, watch, create, patch, delete]
# sees that their kinds are served; the gateway does the rest
- apiGroups: [edgewright.dev]
  resources: [edgelogrequests, edgeexecrequests]
  verbs: [list]
# writes their status: workloads, claims, and what matches
- apiGroups: [management.project-flotta.io]
  resources: [edgedevices/status, edgedeployments/status, edgeworkloads/status, edgedevicegroups/status, edgedevicesets/status, edgedevicesignedrequest/status]
  verbs: [patch]
# claims a bucket for the data of each device, where that kind is installed
- apiGroups: [objectbucket.io]
  resources: [objectbucketclaims]
  verbs: [get, list, create]
{{- end }}
{{- define "edgewright.rules.edge.cluster" }}
{{- end }}
{{- define "edgewright.rules.charts.namespaced" }}
# stores releases as Helm does; listing them is granted per namespace, by a RoleBinding
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create, update, patch, delete]
{{- end }}
{{- define "edgewright.rules.charts.cluster" }}
{{- end }}
{{- define "edgewright.capabilities" }}{{ list "flashjob" "rollout" "flux" "edge" "charts" | toJson }}{{- end }}

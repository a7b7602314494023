{{/* Labels of everything; call with (list . "component" "name"). */}}
{{- define "isthmus.labels" -}}
{{- $root := index . 0 -}}
helm.sh/chart: {{ $root.Chart.Name }}-{{ $root.Chart.Version | replace "+" "_" }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: isthmus
app.kubernetes.io/component: {{ index . 1 }}
{{ include "isthmus.selector" (list $root (index . 2)) }}
{{- end }}

{{/* Labels by which Pods are selected; call with (list . "name"). They may never change within a release. */}}
{{- define "isthmus.selector" -}}
app: {{ index . 1 }}
higress: {{ (index . 0).Release.Namespace }}-{{ index . 1 }}
{{- end }}

{{/* The label value by which Gateways, filters and plugins select the gateways. */}}
{{- define "isthmus.gatewaySelector" -}}
{{ .Release.Namespace }}-{{ .Values.gateway.name }}
{{- end }}

{{/* "true" when others than the pilot beside it may ask the controller for its configs, which nothing protects. */}}
{{- define "isthmus.mcpExposed" -}}
{{- if or .Values.pilot.separate .Values.controller.mcp.exposed }}true{{ end }}
{{- end }}

{{/* Name of an image; call with (list . .Values.controller). */}}
{{- define "isthmus.image" -}}
{{- $root := index . 0 }}{{ $part := index . 1 -}}
{{ $part.hub | default $root.Values.global.hub }}/{{ $part.image }}:{{ $part.tag | default $root.Chart.AppVersion }}
{{- end }}

{{/* Image, pull policy; call with (list . .Values.controller). */}}
{{- define "isthmus.imageFields" -}}
image: {{ include "isthmus.image" . | quote }}
{{- with (index . 0).Values.global.imagePullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
{{- end }}

{{- define "isthmus.pullSecrets" -}}
{{- with .Values.global.imagePullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/* Where Pods may run; call with the part of the values. */}}
{{- define "isthmus.placement" -}}
{{- range $key := list "nodeSelector" "tolerations" "affinity" }}
{{- with index $ $key }}
{{ $key }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{/* Security context of every Pod, under what the values say. */}}
{{- define "isthmus.podSecurity" -}}
{{- $base := dict "runAsNonRoot" true "seccompProfile" (dict "type" "RuntimeDefault") -}}
{{- toYaml (mergeOverwrite $base (deepCopy .)) }}
{{- end }}

{{/* Security context of every container, under what the values say. */}}
{{- define "isthmus.containerSecurity" -}}
{{- $base := dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true "capabilities" (dict "drop" (list "ALL")) -}}
{{- toYaml (mergeOverwrite $base (deepCopy .)) }}
{{- end }}

{{/* Environment variables of the values. */}}
{{- define "isthmus.env" -}}
{{- range $name, $value := . }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}

{{/* Who a Pod is. */}}
{{- define "isthmus.identity" -}}
- name: POD_NAME
  valueFrom: { fieldRef: { fieldPath: metadata.name } }
- name: POD_NAMESPACE
  valueFrom: { fieldRef: { fieldPath: metadata.namespace } }
{{- end }}

{{- define "isthmus.logArgs" -}}
- --log-format={{ ternary "json" "text" .Values.global.logAsJson }}
- --log-level={{ .Values.global.logging.level }}
{{- end }}

{{- define "isthmus.controllerAccount" -}}
{{ .Values.controller.serviceAccount.name | default .Values.controller.name }}
{{- end }}

{{/* The pilot has an account of its own only in Pods of its own. */}}
{{- define "isthmus.pilotAccount" -}}
{{ ternary .Values.pilot.name (include "isthmus.controllerAccount" .) .Values.pilot.separate }}
{{- end }}

{{- define "isthmus.gatewayAccount" -}}
{{ .Values.gateway.serviceAccount.name | default .Values.gateway.name }}
{{- end }}

{{/* Names of the objects that the pilot keeps its authority in. */}}
{{- define "isthmus.xdsAuthority" -}}
{{ .Values.pilot.name }}-xds-ca
{{- end }}

{{- define "isthmus.xdsRoot" -}}
{{ .Values.pilot.name }}-xds-root
{{- end }}

{{/* Secret with the certificate of xDS over TLS, where the pilot does not make it. */}}
{{- define "isthmus.xdsSecret" -}}
{{- $certificates := .Values.pilot.certificates -}}
{{- if and (eq $certificates.provider "secret") (not $certificates.secretName) -}}
{{- fail "pilot.certificates.provider is secret: name the Secret in pilot.certificates.secretName" -}}
{{- end -}}
{{ $certificates.secretName | default (printf "%s-xds" .Values.pilot.name) }}
{{- end }}

{{/* Names under which gateways know the pilot, with commas between them; the first is the one that they use. */}}
{{- define "isthmus.xdsNames" -}}
{{- $short := printf "%s.%s" (include "isthmus.pilotName" .) .Release.Namespace -}}
{{ $short }}.svc.{{ .Values.global.proxy.clusterDomain }},{{ $short }}.svc,{{ $short }}
{{- end }}

{{/* Name of the Service, and value of the label `app`, of the pilot's Pods. */}}
{{- define "isthmus.pilotName" -}}
{{ ternary .Values.pilot.name .Values.controller.name .Values.pilot.separate }}
{{- end }}


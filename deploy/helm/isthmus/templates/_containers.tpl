{{/* The containers of the control plane: together in one Pod, or each in its own. */}}

{{- define "isthmus.controllerContainer" -}}
- name: controller
  {{- include "isthmus.imageFields" (list . .Values.controller) | nindent 2 }}
  args:
    - serve
    - --ingress-class={{ .Values.global.ingressClass }}
    - --watch-namespace={{ .Values.global.watchNamespace }}
    - --enable-status={{ .Values.global.enableStatus }}
    - --status-service-selector=app={{ .Values.gateway.name }}
    - --gateway-selector-key=higress
    - --gateway-selector-value={{ include "isthmus.gatewaySelector" . }}
    - --gateway-http-port={{ .Values.gateway.httpPort }}
    - --gateway-https-port={{ .Values.gateway.httpsPort }}
    - --cluster-id={{ .Values.clusterName }}
    - --domain={{ .Values.global.proxy.clusterDomain }}
    {{- include "isthmus.logArgs" . | nindent 4 }}
    {{- with .Values.controller.extraArgs }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  env:
    {{- include "isthmus.identity" . | nindent 4 }}
    {{- include "isthmus.env" .Values.controller.env | nindent 4 }}
  ports:
    - { name: http, containerPort: 8888 }
    - { name: grpc-mcp, containerPort: 15051 }
  {{- include "isthmus.probes" (dict "ready" 8888 "live" 8888) | nindent 2 }}
  securityContext:
    {{- include "isthmus.containerSecurity" .Values.controller.securityContext | nindent 4 }}
  resources:
    {{- toYaml .Values.controller.resources | nindent 4 }}
{{- end }}

{{- define "isthmus.pilotContainer" -}}
- name: pilot
  {{- include "isthmus.imageFields" (list . .Values.pilot) | nindent 2 }}
  args:
    - serve
    - --config-source=xds://{{ ternary (printf "%s.%s.svc.%s" .Values.controller.name .Release.Namespace .Values.global.proxy.clusterDomain) "127.0.0.1" .Values.pilot.separate }}:15051
    - --watch-namespace={{ .Values.global.watchNamespace }}
    - --cluster-id={{ .Values.clusterName }}
    - --domain={{ .Values.global.proxy.clusterDomain }}
    - --enable-scoped-rds={{ .Values.global.enableSRDS }}
    - --on-demand-rds={{ .Values.global.onDemandRDS }}
    - --host-rds-merge-subset={{ .Values.global.hostRDSMergeSubset }}
    - --filter-gateway-clusters={{ .Values.global.onlyPushRouteCluster }}
    {{- if .Values.pilot.allowPlaintextSDS }}
    - --allow-plaintext-sds
    {{- end }}
    {{- include "isthmus.logArgs" . | nindent 4 }}
    {{- with .Values.pilot.extraArgs }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  env:
    {{- include "isthmus.identity" . | nindent 4 }}
    {{- include "isthmus.env" .Values.pilot.env | nindent 4 }}
  ports:
    - { name: http-pilot, containerPort: 8080 }
    - { name: grpc-xds, containerPort: 15010 }
    - { name: http-monitoring, containerPort: 15014 }
  {{- include "isthmus.probes" (dict "ready" 8080 "live" 15014) | nindent 2 }}
  securityContext:
    {{- include "isthmus.containerSecurity" .Values.pilot.securityContext | nindent 4 }}
  resources:
    {{- toYaml .Values.pilot.resources | nindent 4 }}
{{- end }}

{{/* Metrics are answered from the start: a process that does not answer them is stuck. */}}
{{- define "isthmus.probes" -}}
readinessProbe:
  httpGet: { path: /ready, port: {{ .ready }} }
  initialDelaySeconds: 1
  periodSeconds: 3
  timeoutSeconds: 5
livenessProbe:
  httpGet: { path: /metrics, port: {{ .live }} }
  initialDelaySeconds: 10
  periodSeconds: 15
  timeoutSeconds: 10
  failureThreshold: 4
{{- end }}

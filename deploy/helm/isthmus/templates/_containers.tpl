{{/* The containers of the control plane: together in one Pod, or each in its own. */}}

{{- define "isthmus.controllerContainer" -}}
- name: controller
  {{- include "isthmus.imageFields" (list . .Values.controller) | nindent 2 }}
  args:
    - serve
    - --mcp-address={{ ternary "0.0.0.0" "127.0.0.1" (eq (include "isthmus.mcpExposed" .) "true") }}:15051
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
    {{- if include "isthmus.mcpExposed" . }}
    - { name: grpc-mcp, containerPort: 15051 }
    {{- end }}
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
    - --grpc-address={{ ternary "0.0.0.0" "127.0.0.1" .Values.pilot.plaintext.enabled }}:15010
    - --secure-grpc-address=0.0.0.0:15012
    - --gateway-accounts={{ prepend .Values.pilot.gatewayAccounts (printf "%s/%s" .Release.Namespace (include "isthmus.gatewayAccount" .)) | join "," }}
    {{- if eq .Values.pilot.certificates.provider "pilot" }}
    - --xds-ca-secret={{ include "isthmus.xdsAuthority" . }}
    - --xds-ca-configmap={{ include "isthmus.xdsRoot" . }}
    - --xds-server-names={{ include "isthmus.xdsNames" . }}
    {{- else }}
    - --tls-cert-file=/etc/isthmus/tls/tls.crt
    - --tls-key-file=/etc/isthmus/tls/tls.key
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
    {{- if .Values.pilot.plaintext.enabled }}
    - { name: grpc-xds, containerPort: 15010 }
    {{- end }}
    - { name: grpcs-xds, containerPort: 15012 }
    - { name: http-monitoring, containerPort: 15014 }
  {{- include "isthmus.probes" (dict "ready" 8080 "live" 15014) | nindent 2 }}
  {{- if ne .Values.pilot.certificates.provider "pilot" }}
  volumeMounts:
    - { name: xds-tls, mountPath: /etc/isthmus/tls, readOnly: true }
  {{- end }}
  securityContext:
    {{- include "isthmus.containerSecurity" .Values.pilot.securityContext | nindent 4 }}
  resources:
    {{- toYaml .Values.pilot.resources | nindent 4 }}
{{- end }}

{{/* Volumes of the Pod that the pilot is in. */}}
{{- define "isthmus.pilotVolumes" -}}
{{- if ne .Values.pilot.certificates.provider "pilot" }}
volumes:
  - name: xds-tls
    secret:
      secretName: {{ include "isthmus.xdsSecret" . }}
      items: [{ key: tls.crt, path: tls.crt }, { key: tls.key, path: tls.key }]
{{- end }}
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

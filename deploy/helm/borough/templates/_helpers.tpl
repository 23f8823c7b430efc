{{- define "borough.labels" -}}
app.kubernetes.io/name: borough
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .role }}
{{- end }}

{{- define "borough.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "borough.checks" -}}
{{- if not .Values.foundationdb.configMap }}{{ fail "foundationdb.configMap: name a config map with the cluster file" }}{{ end }}
{{- if not .Values.secret }}{{ fail "secret: name a secret with the keys token and node-tokens" }}{{ end }}
{{- $tls := and .Values.tls.gatewaySecret .Values.tls.controlSecret }}
{{- if and (not $tls) (not .Values.tls.plaintext) }}{{ fail "tls: name gatewaySecret and controlSecret, or set plaintext" }}{{ end }}
{{- if and .Values.tls.plaintext (or .Values.tls.gatewaySecret .Values.tls.controlSecret) }}{{ fail "tls: plaintext excludes gatewaySecret and controlSecret" }}{{ end }}
{{- end }}

{{/* What a certificate is for: the scheme of probes and services. */}}
{{- define "borough.scheme" -}}
{{ if and (not .root.Values.tls.plaintext) (ne .role "names") }}HTTPS{{ else }}HTTP{{ end }}
{{- end }}

{{/* A pod of a control role. Takes root, role, port (of HTTP), ports, args, settings, secret and tls (names of secrets). */}}
{{- define "borough.pod" -}}
metadata:
  labels: {{- include "borough.labels" . | nindent 4 }}
spec:
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 30
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    seccompProfile: {type: RuntimeDefault}
  {{- if .secret }}
  initContainers:
    - name: secrets
      image: {{ .root.Values.init.image }}
      command: [sh, -c, 'for file in /from/*/*; do install -m 0600 "$file" /secrets/ || exit 1; done']
      securityContext: {readOnlyRootFilesystem: true, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
      volumeMounts:
        - {name: secrets, mountPath: /secrets}
        - {name: secret, mountPath: /from/secret, readOnly: true}
        {{- if .tls }}
        - {name: tls, mountPath: /from/tls, readOnly: true}
        {{- end }}
  {{- end }}
  containers:
    - name: {{ .role }}
      image: {{ include "borough.image" .root }}
      imagePullPolicy: {{ .root.Values.image.pullPolicy }}
      args:
        - {{ .role }}
        - --store=fdb:/etc/foundationdb/{{ .root.Values.foundationdb.key }}
        - --cells={{ join "," .root.Values.cells }}
        {{- if .secret }}
        - --token-file=/secrets/token
        {{- end }}
        {{- if .tls }}
        - --tls-ca=/secrets/ca.pem
        - --tls-cert=/secrets/cert.pem
        - --tls-key=/secrets/key.pem
        {{- else }}
        - --plaintext
        {{- end }}
        {{- range concat .args .settings.options }}
        - {{ . }}
        {{- end }}
      env:
        - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
      ports:
        {{- range .ports }}
        - {{ . }}
        {{- end }}
      livenessProbe:
        httpGet: {path: /healthz, port: http, scheme: {{ include "borough.scheme" . }}}
        initialDelaySeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet: {path: /readyz, port: http, scheme: {{ include "borough.scheme" . }}}
        periodSeconds: 5
      resources: {{- toYaml .settings.resources | nindent 8 }}
      securityContext: {readOnlyRootFilesystem: true, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
      volumeMounts:
        - {name: foundationdb, mountPath: /etc/foundationdb, readOnly: true}
        - {name: state, mountPath: /var/lib/borough}
        {{- if .secret }}
        - {name: secrets, mountPath: /secrets, readOnly: true}
        {{- end }}
  volumes:
    - {name: foundationdb, configMap: {name: {{ .root.Values.foundationdb.configMap }}}}
    - {name: state, emptyDir: {}}
    {{- if .secret }}
    - {name: secrets, emptyDir: {medium: Memory}}
    - {name: secret, secret: {secretName: {{ .secret }}, defaultMode: 0440}}
    {{- end }}
    {{- if .tls }}
    - {name: tls, secret: {secretName: {{ .tls }}, defaultMode: 0440}}
    {{- end }}
{{- end }}

{{/* A deployment of a control role, with the same arguments as its pod. */}}
{{- define "borough.deployment" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .root.Release.Name }}-{{ .role }}
  labels: {{- include "borough.labels" . | nindent 4 }}
spec:
  replicas: {{ .settings.replicas }}
  selector:
    matchLabels: {{- include "borough.labels" . | nindent 6 }}
  template: {{- include "borough.pod" . | nindent 4 }}
{{- end }}

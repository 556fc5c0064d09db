{{/* Called with the root. One line for whoever installs it elsewhere: roles and policies name it. */}}
{{- define "berth.check" -}}
{{- if ne .Release.Namespace "kube-system" -}}
{{- fail (printf "namespace %q: Berth's roles and its NodeNetworkConfigs are in kube-system; install it there, with --namespace kube-system" .Release.Namespace) -}}
{{- end -}}
{{- if and .Values.podIpsPolicy (not (has "pod-ips" .Values.controller.controllers)) -}}
{{- fail "podIpsPolicy: true: no node would have berth.dev/pod-ips, and no pod would start; add pod-ips to controller.controllers" -}}
{{- end -}}
{{- if and .Values.networkUnavailablePolicy (not (has "route" .Values.controller.controllers)) -}}
{{- fail "networkUnavailablePolicy: true: nobody would take NetworkUnavailable from new nodes; add route to controller.controllers" -}}
{{- end -}}
{{- range $name := list "controller" "scheduler" "dashboard" -}}
{{- $of := index $.Values $name -}}
{{- if and $of.enabled (not $of.hostNetwork) (hasPrefix "127." $.Values.metrics.address) -}}
{{- fail (printf "metrics.address %s: the kubelet does not reach it in a pod on the pods' network; with %s.hostNetwork false, set it to 0.0.0.0" $.Values.metrics.address $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Called with (dict "root" $ "component" NAME). */}}
{{- define "berth.labels" -}}
app.kubernetes.io/name: berth-{{ .component }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/part-of: berth
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- end -}}

{{- define "berth.selector" -}}
app.kubernetes.io/name: berth-{{ .component }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end -}}

{{- define "berth.image" -}}
image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end -}}

{{/* Environment of all components. */}}
{{- define "berth.environment" -}}
- {name: BERTH_LOG_FORMAT, value: {{ .Values.log.format }}}
{{- with .Values.log.level }}
- {name: BERTH_LOG_LEVEL, value: {{ quote . }}}
{{- end }}
{{- with .Values.apiServer.host }}
- {name: KUBERNETES_SERVICE_HOST, value: {{ quote . }}}
- {name: KUBERNETES_SERVICE_PORT, value: {{ $.Values.apiServer.port | quote }}}
{{- end }}
{{- end -}}

{{/* Called with (dict "root" $ "component" NAME). A component on the node's network is asked there,
     on whatever it listens. No port is declared: on the node's network it would be reserved by the
     scheduler, and the next pod of an update be kept away. */}}
{{- define "berth.probes" -}}
{{- $port := index .root.Values.metrics.ports .component -}}
{{- $address := .root.Values.metrics.address -}}
{{- $host := ternary "127.0.0.1" $address (eq $address "0.0.0.0") -}}
{{- $own := index .root.Values .component -}}
readinessProbe:
  httpGet:
    path: /readyz
    port: {{ $port }}
    {{- if (dig "hostNetwork" true $own) }}
    host: {{ $host }}
    {{- end }}
  periodSeconds: 2
livenessProbe:
  httpGet:
    path: /healthz
    port: {{ $port }}
    {{- if (dig "hostNetwork" true $own) }}
    host: {{ $host }}
    {{- end }}
  failureThreshold: 6
{{- end -}}

{{/* What a Prometheus that discovers pods goes by. */}}
{{- define "berth.scrape" -}}
{{- if not (hasPrefix "127." .root.Values.metrics.address) -}}
prometheus.io/scrape: "true"
prometheus.io/port: {{ index .root.Values.metrics.ports .component | quote }}
{{- end -}}
{{- end -}}

{{- define "berth.pullSecrets" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

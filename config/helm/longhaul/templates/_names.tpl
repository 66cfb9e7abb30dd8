{{/* The name of everything: the release's, with the chart's where it is not in it already. */}}
{{- define "longhaul.name" -}}
{{- $chart := default .Chart.Name .Values.nameOverride -}}
{{- $joined := ternary .Release.Name (printf "%s-%s" .Release.Name $chart) (contains $chart .Release.Name) -}}
{{- default $joined .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* What the pods are found by. It must never change: a Deployment's selector is immutable. */}}
{{- define "longhaul.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "longhaul.labels" -}}
{{ include "longhaul.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

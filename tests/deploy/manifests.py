"""manifests.py FOLDER VALIDATOR: renders the chart, and holds what it makes and the plain manifests
to the schemas of Kubernetes and to the rules below."""

import subprocess
import sys
import tempfile
from pathlib import Path

import helm_python
import yaml

# The chart's oldest Kubernetes, and the newest with schemas.
VERSIONS = ("1.30", "1.37")

TOKENS = {"name": "tokens", "secret": {"secretName": "longhaul-tokens"}}
TOKENS_MOUNT = {"name": "tokens", "mountPath": "/etc/longhaul/tokens", "readOnly": True}

# Values that take every branch of the templates.
RENDERED = {
    "defaults": {},
    "everything": {
        "affinity": {"podAntiAffinity": {}},
        "drain": 60,
        "env": [{"name": "SSL_CERT_FILE", "value": "/etc/ssl/own.pem"}],
        "image": {"repository": "registry.example.org/longhaul", "tag": "edge"},
        "imagePullSecrets": [{"name": "pull"}],
        "nodeSelector": {"kubernetes.io/arch": "arm64"},
        "podAnnotations": {"a": "b"},
        "podLabels": {"team": "agents"},
        "preStop": 10,
        "priorityClassName": "high",
        "replicas": 2,
        "service": {"type": "LoadBalancer", "port": 80, "annotations": {"c": "d"}},
        "settings": 'profile = "frugal"\n\n[prune]\nmin_user_turns = 1\n',
        "store": {"at": "redis", "secret": "records"},
        "tolerations": [{"key": "k", "operator": "Exists"}],
        "volumes": [TOKENS],
        "volumeMounts": [TOKENS_MOUNT],
    },
    "an image by its digest": {"image": {"repository": "r", "digest": "sha256:" + 64 * "0"}},
    "several": {"replicas": 2, "resources": {}, "scrape": False},
    "files of its own alone": {"volumes": [TOKENS], "volumeMounts": [TOKENS_MOUNT]},
}

REFUSED = {
    "a misspelt value": {"replica": 2},
    "a digest that is none": {"image": {"repository": "r", "digest": "latest"}},
    "a mount without a place": {"volumes": [TOKENS], "volumeMounts": [{"name": "tokens"}]},
    "no replicas to speak of": {"replicas": "two"},
    "a store of another kind": {"store": {"at": "file"}},
    "an upstream that is no URL": {"upstream": "api.openai.com"},
    "an upstream with a key in it": {"upstream": "https://user:key@example.org"},
}

PROBES = {
    "livenessProbe": ("/livez",),
    "readinessProbe": ("/readyz",),
    "startupProbe": ("/livez", "/readyz"),
}

NOTES = "longhaul/templates/NOTES.txt"


def main(folder: Path, validator: str) -> None:
    manifests = {}
    for path in sorted((folder / "kubernetes").glob("*.yaml")):
        manifests[path.name] = path.read_text()
    manifests.update(rendered(folder / "helm/longhaul"))
    for name, text in manifests.items():
        check_schemas(name, text, validator)
        for thing in filter(None, yaml.safe_load_all(text)):
            check(name, thing)
    print(f"the chart and the manifests: {len(manifests)} valid for Kubernetes {' and '.join(VERSIONS)}")


def rendered(chart: Path) -> dict[str, str]:
    said = helm_python.lint(chart)
    # Severity 1 is advice, such as that a chart should have an icon.
    warnings = [message for message in said["messages"] if message["severity"] > 1]
    require("the chart", not said["errors"] and not warnings, f"helm's lint says {said}")
    texts = {}
    with helm_python.Chart.load(chart) as loaded:
        for name, values in RENDERED.items():
            files = loaded.render(values=values, name="longhaul", namespace="agents")
            port = values.get("service", {}).get("port", 8484)
            url = f"OPENAI_BASE_URL=http://longhaul.agents:{port}/v1"
            require("NOTES.txt", url in files.pop(NOTES), f"does not say {url}")
            texts[f"the chart with {name}"] = "\n---\n".join(files.values())
        for what, values in REFUSED.items():
            try:
                loaded.render(values=values, name="longhaul", namespace="agents")
            except helm_python.HelmError:
                continue
            sys.exit(f"the chart takes {what}")
    return texts


def check_schemas(name: str, text: str, validator: str) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        for version in VERSIONS:
            call = [validator, "--strict", "--quiet", "--kubernetes-version", version, file.name]
            done = subprocess.run(call, capture_output=True, text=True)
            require(name, done.returncode == 0, done.stdout + done.stderr)


def check(name: str, thing: dict) -> None:
    """The rules that no schema knows."""
    if thing["kind"] == "Deployment":
        pod = thing["spec"]["template"]["spec"]
    elif thing["kind"] == "Pod":
        pod = thing["spec"]
    else:
        return
    containers = pod["containers"] + pod.get("initContainers", [])
    for container in containers:
        check_restricted(f"{name}, {container['name']}", pod["securityContext"], container)
    (proxy,) = (container for container in containers if container["name"] == "longhaul")
    check_proxy(name, pod, proxy)


def check_restricted(name: str, pod: dict, container: dict) -> None:
    """What the profile `restricted` of the Pod Security Standards asks for."""
    own = container["securityContext"]
    require(name, own["allowPrivilegeEscalation"] is False, "may gain privileges")
    require(name, own["capabilities"] == {"drop": ["ALL"]}, "has capabilities")
    require(name, pod["runAsNonRoot"] is True, "may be root")
    require(name, own.get("runAsUser", pod.get("runAsUser")) != 0, "is root")
    require(name, pod["seccompProfile"]["type"] == "RuntimeDefault", "has no seccomp profile")


def check_proxy(name: str, pod: dict, proxy: dict) -> None:
    user = proxy["securityContext"].get("runAsUser", pod["securityContext"].get("runAsUser"))
    require(name, user == 65532, f"runs as {user}")
    require(name, proxy["securityContext"]["readOnlyRootFilesystem"] is True, "can write")
    require(name, pod["automountServiceAccountToken"] is False, "has a token of the cluster")
    ports = {port["name"]: port["containerPort"] for port in proxy["ports"]}
    for probe, path in PROBES.items():
        asked = proxy[probe]["httpGet"]
        require(name, asked["path"] in path, f"{probe} asks {asked['path']}")
        require(name, ports[asked["port"]] == 8485, f"{probe} asks port {asked['port']}")
    environment = {entry["name"]: entry.get("value") for entry in proxy["env"]}
    require(name, environment["LONGHAUL_ADMIN"] == "0.0.0.0:8485", "the kubelet cannot ask it")
    own = environment["LONGHAUL_LISTEN"].startswith("127.")
    require(name, own or environment.get("LONGHAUL_PUBLIC") == "true", "would not start")
    stop = proxy.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
    drain = int(environment.get("LONGHAUL_LIMITS_DRAIN", "30s").removesuffix("s"))
    grace = pod["terminationGracePeriodSeconds"]
    require(name, grace > stop + drain, f"killed after {grace} s, needs {stop} + {drain}")
    mounts = {mount["name"] for mount in proxy.get("volumeMounts", [])}
    volumes = {volume["name"] for volume in pod.get("volumes", [])}
    require(name, mounts == volumes, f"mounts {mounts} of {volumes}")


def require(name: str, holds: bool, otherwise: str) -> None:
    if not holds:
        sys.exit(f"{name}: {otherwise}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])

"""compose.py FILE: holds the compose file to what its first line says: what shares a network with
whom."""

import sys

import yaml


def main(path: str) -> None:
    with open(path) as file:
        whole = yaml.safe_load(file)
    services = whole["services"]
    networks = {name: set(service["networks"]) for name, service in services.items()}
    agent, redis = networks["agent"], networks["redis"]

    closed = {name for name, network in whole["networks"].items() if (network or {}).get("internal")}
    require(agent <= closed, "the agent's networks lead out")
    require(redis <= closed, "the server's networks lead out")
    reached = {name for name, its in networks.items() if its & agent} - {"agent"}
    require(reached == {"longhaul"}, f"the agent reaches {sorted(reached)}")
    reached = {name for name, its in networks.items() if its & redis} - {"redis"}
    require(reached == {"longhaul"}, f"{sorted(reached)} reach the server")
    print("the compose file: the agent and the records reach longhaul alone")


def require(holds: bool, otherwise: str) -> None:
    if not holds:
        sys.exit(f"the compose file: {otherwise}")


if __name__ == "__main__":
    main(sys.argv[1])

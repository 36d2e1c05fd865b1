"""The images of the compose file from its own Dockerfile, without what takes gigabytes.

Left out are the runtimes of workers and encoders, and all languages of the sandbox but Python;
trainer and evaluator run stand-ins of their children. The rest is built as it is for an operator.
"""

import json
import re

from tests.support.docker.engine import Engine
from tests.support.docker.stand_in_base import package_arguments

STUBS = {
    "services.trainer": "tests.support.jobs.stub_tuning_worker",
    "services.evaluator": "tests.support.engines.stub_serving_worker",
}
STUB_SOURCES = ("tests/support/__init__.py", "tests/support/jobs", "tests/support/engines")
SERVICES = ("api", "campaigns", "sandbox", "retrieval", "trainer", "evaluator", "cli")


def build_images(engine: Engine) -> None:
    """Build all images in the engine's project on its base images, and print their sizes."""
    project = engine.project
    (project / "Dockerfile.light").write_text(lightened((project / "Dockerfile").read_text()))
    with (project / ".dockerignore").open("a") as ignored:
        ignored.write("!tests/support/\n")
    build = {"dockerfile": "Dockerfile.light", "network": "host"}
    names = (*SERVICES, "indexer")
    override = {"services": {name: {"build": build} for name in names}}
    (project / "light.yml").write_text(json.dumps(override))
    with package_arguments() as arguments:
        variables = engine.variables
        engine.variables = {**variables, **arguments}
        engine.compose("build", *SERVICES, files=("docker-compose.yml", "light.yml"))
        engine.variables = variables
    # What images share is stored once.
    print(engine.docker("system", "df", "--verbose").partition("\n\nContainers")[0])


def lightened(text: str) -> str:
    """The Dockerfile of the light images, made of the operators' one."""
    text = re.sub(r"^COPY --from=(?!sandbox)\S+-runtime .*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"(?<=^        )bash \\\n.*?(?=libseccomp2)", "", text, flags=re.M | re.S)
    for module, stub in STUBS.items():
        copies = "".join(f"COPY {source} {source}\n" for source in STUB_SOURCES)
        own = f'USER 10001:10001\nCMD ["python", "-m", "{module}"]\n'
        assert own in text
        stand_in = f'{copies}USER 10001:10001\nCMD ["python", "-m", "{stub}"]\n'
        text = text.replace(own, stand_in)
    return text

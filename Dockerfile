# The images of all services, one target each: docker build --target api --tag temper-api .
#
# What several images hold is a layer that they share: Python with its byte code, the core environment, the runtimes of the
# workers. What changes with the code comes last.

FROM python:3.11-slim-bookworm AS python
# Containers are read-only, and the official image has no byte code: without it, every process would compile what it imports.
RUN python -m compileall -q -j 0 --invalidation-mode unchecked-hash -x '/(tests?|lib2to3|site-packages)/' \
        /usr/local/lib/python3.11 \
    && groupadd --gid 10001 temper \
    && useradd --uid 10001 --gid temper --home-dir /tmp --no-create-home --shell /usr/sbin/nologin temper \
    && install --directory --owner=temper --group=temper /var/lib/temper \
    && install --directory --owner=temper --group=temper --mode=711 /srv/campaigns
ENV PATH=/opt/temper/core/bin:$PATH \
    PYTHONPATH=/opt/temper/app \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    TEMPER_HOME=/var/lib/temper \
    TEMPER_RUNTIMES=/opt/temper/runtimes

# The stages that install packages. No image descends from them, so the settings with which pip finds packages stay behind.
FROM python AS packages
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_FIND_LINKS
ARG PIP_TRUSTED_HOST
# Byte code of packages is written as they are installed.
ENV PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PYTHONDONTWRITEBYTECODE=

FROM packages AS core-environment
COPY infra/requirements/core.txt /build/core.txt
RUN python -m venv --without-pip /opt/temper/core \
    && /usr/local/bin/python -m pip --python /opt/temper/core/bin/python install --no-deps --requirement /build/core.txt

FROM packages AS sandbox-environment
COPY infra/requirements/sandbox.txt /build/sandbox.txt
RUN python -m venv --without-pip /opt/temper/core \
    && /usr/local/bin/python -m pip --python /opt/temper/core/bin/python install --no-deps --requirement /build/sandbox.txt

FROM packages AS installer
WORKDIR /build/infra/runtimes
COPY infra/debian.py /build/infra/debian.py
COPY infra/runtimes/install.py install.py
COPY infra/runtimes/installer installer

FROM installer AS training-runtime
ARG ACCELERATOR=cpu
COPY infra/runtimes/training training
RUN python install.py training --home /opt/temper --accelerator "$ACCELERATOR"

FROM installer AS vllm-runtime
ARG ACCELERATOR=cpu
COPY infra/runtimes/vllm vllm
RUN python install.py vllm --home /opt/temper --accelerator "$ACCELERATOR"

FROM installer AS encoder-runtime
ARG ACCELERATOR=cpu
COPY infra/runtimes/encoder encoder
RUN python install.py encoder --home /opt/temper --accelerator "$ACCELERATOR"

FROM installer AS tracking-runtime
COPY infra/runtimes/tracking tracking
RUN python install.py tracking --home /opt/temper --accelerator cpu

FROM installer AS grading-runtime
COPY infra/runtimes/grading grading
RUN python install.py grading --home /opt/temper --accelerator cpu

FROM installer AS sandbox-runtime
COPY infra/runtimes/sandbox sandbox
RUN python install.py sandbox --home /opt/temper --accelerator cpu

# What all services but the sandbox are made on.
FROM python AS service
ENV XDG_CACHE_HOME=/var/lib/temper/cache \
    HF_HOME=/var/lib/temper/cache/huggingface
COPY --from=core-environment /opt/temper/core /opt/temper/core
COPY infra/compose/health /opt/temper/health
WORKDIR /opt/temper/app

# What trainer and evaluator are made on: the evaluator merges adapters with the training runtime, the trainer samples with vLLM.
FROM service AS worker
ARG ACCELERATOR=cpu
# libnuma is not in vLLM's wheel. On a GPU, Triton compiles while it runs.
RUN apt-get update \
    && if [ "$ACCELERATOR" = cuda ]; then compiler="gcc libc6-dev"; fi \
    && apt-get install --yes --no-install-recommends libnuma1 $compiler \
    && rm -rf /var/lib/apt/lists/*
COPY --from=training-runtime /opt/temper/runtimes/training /opt/temper/runtimes/training
COPY --from=vllm-runtime /opt/temper/runtimes/vllm /opt/temper/runtimes/vllm
COPY --from=tracking-runtime /opt/temper/runtimes/tracking /opt/temper/runtimes/tracking
COPY --from=grading-runtime /opt/temper/runtimes/grading /opt/temper/runtimes/grading

# The gateway and its dispatcher.
FROM service AS api
COPY services/__init__.py services/__init__.py
COPY services/contracts services/contracts
COPY services/parsing services/parsing
COPY services/core services/core
COPY services/jobs services/jobs
COPY services/models services/models
COPY services/datasets services/datasets
COPY services/inference services/inference
COPY services/metrics services/metrics
COPY services/rewards services/rewards
COPY services/dialects services/dialects
COPY services/rollouts services/rollouts
COPY services/api services/api
RUN python -m compileall -q --invalidation-mode unchecked-hash services
USER 10001:10001
EXPOSE 8080
CMD ["python", "-m", "services.api", "--host", "0.0.0.0", "--port", "8080"]

# The worker of campaigns.
FROM service AS campaigns
COPY services/__init__.py services/__init__.py
COPY services/contracts services/contracts
COPY services/parsing services/parsing
COPY services/core services/core
COPY services/jobs services/jobs
COPY services/models services/models
COPY services/datasets services/datasets
COPY services/inference services/inference
COPY services/metrics/__init__.py services/metrics/contamination.py services/metrics/extraction.py \
    services/metrics/fences.py services/metrics/gains.py services/metrics/missing_scores.py services/metrics/paired.py \
    services/metrics/repeated.py services/metrics/
COPY services/campaigns services/campaigns
RUN python -m compileall -q --invalidation-mode unchecked-hash services
USER 10001:10001
CMD ["python", "-m", "services.campaigns"]

# The worker of fine-tuning jobs.
FROM worker AS trainer
COPY services/__init__.py services/__init__.py
COPY services/contracts services/contracts
COPY services/parsing services/parsing
COPY services/core services/core
COPY services/jobs services/jobs
COPY services/models services/models
COPY services/datasets services/datasets
COPY services/inference services/inference
COPY services/metrics services/metrics
COPY services/mixing services/mixing
COPY services/rewards services/rewards
COPY services/dialects services/dialects
COPY services/rollouts services/rollouts
COPY services/trainer services/trainer
RUN python -m compileall -q --invalidation-mode unchecked-hash services
USER 10001:10001
CMD ["python", "-m", "services.trainer"]

# The worker of evaluations, rollouts and servings.
FROM worker AS evaluator
COPY services/__init__.py services/__init__.py
COPY services/contracts services/contracts
COPY services/parsing services/parsing
COPY services/core services/core
COPY services/jobs services/jobs
COPY services/models services/models
COPY services/datasets services/datasets
COPY services/inference services/inference
COPY services/metrics services/metrics
COPY services/rewards services/rewards
COPY services/dialects services/dialects
COPY services/rollouts services/rollouts
COPY services/evaluator services/evaluator
RUN python -m compileall -q --invalidation-mode unchecked-hash services
USER 10001:10001
CMD ["python", "-m", "services.evaluator"]

# The retrieval service. Its indexer is the same image with another command: python -m services.retrieval.worker
FROM service AS retrieval
COPY --from=encoder-runtime /opt/temper/runtimes/encoder /opt/temper/runtimes/encoder
COPY --from=tracking-runtime /opt/temper/runtimes/tracking /opt/temper/runtimes/tracking
COPY services/__init__.py services/__init__.py
COPY services/contracts services/contracts
COPY services/core services/core
COPY services/jobs services/jobs
COPY services/models services/models
COPY services/datasets services/datasets
COPY services/retrieval services/retrieval
RUN python -m compileall -q --invalidation-mode unchecked-hash services
USER 10001:10001
EXPOSE 8082
CMD ["python", "-m", "services.retrieval", "--host", "0.0.0.0", "--port", "8082"]

# The command line.
FROM service AS cli
COPY services/__init__.py services/__init__.py
COPY services/contracts services/contracts
COPY services/parsing services/parsing
COPY services/metrics services/metrics
COPY services/mixing services/mixing
COPY temper temper
RUN python -m compileall -q --invalidation-mode unchecked-hash services temper
USER 10001:10001
# -P: it works in a folder of the user's, whose modules are not its own.
ENTRYPOINT ["python", "-P", "-m", "temper"]

# The sandbox, with its interpreters and compilers, and only those packages that it imports itself.
# More languages: --build-arg SANDBOX_PACKAGES="racket iverilog" (Debian packages).
FROM python AS sandbox
# The packages of each language are declared in services/sandbox/languages.
ARG SANDBOX_PACKAGES=""
# Java's packages link manual pages into a folder that slim images lack.
RUN mkdir --parents /usr/share/man/man1 \
    && apt-get update \
    && apt-get install --yes --no-install-recommends \
        bash \
        g++ libssl-dev \
        nodejs node-typescript \
        golang-go golang-github-stretchr-testify-dev \
        default-jdk-headless junit4 junit5 libjavatuples-java \
        rustc \
        php-cli php-mbstring \
        perl libdata-compare-perl \
        ruby \
        lua5.4 \
        r-base-core \
        sqlite3 \
        libseccomp2 \
        $SANDBOX_PACKAGES \
    && rm -rf /var/lib/apt/lists/*
COPY --from=sandbox-environment /opt/temper/core /opt/temper/core
COPY --from=sandbox-runtime /opt/temper/runtimes/sandbox /opt/temper/runtimes/sandbox
ENV TEMPER_SANDBOX_PREPARED=/opt/temper/prepared
COPY infra/compose/health /opt/temper/health
WORKDIR /opt/temper/app
COPY services/__init__.py services/__init__.py
COPY services/contracts/__init__.py services/contracts/base.py services/contracts/errors.py \
    services/contracts/validation.py services/contracts/version.py services/contracts/
COPY services/contracts/sandbox services/contracts/sandbox
COPY services/core/__init__.py services/core/addresses.py services/core/ids.py services/core/logging.py \
    services/core/settings.py services/core/
COPY services/core/process/__init__.py services/core/process/runtimes.py services/core/process/tree.py \
    services/core/process/watchdog.py services/core/process/
COPY services/core/process/startup services/core/process/startup
COPY services/core/web services/core/web
COPY services/sandbox services/sandbox
RUN python -m compileall -q --invalidation-mode unchecked-hash services \
    && mkdir --parents "$TEMPER_SANDBOX_PREPARED" \
    && python -m services.sandbox.languages.preparation "$TEMPER_SANDBOX_PREPARED"
# Starts as root with few capabilities, to give programs user ids of their own. Where namespaces are available
# (docker run --user 10001 --security-opt seccomp=unconfined ..., see infra/compose/sandbox-full.yml) root is not needed.
EXPOSE 8081
CMD ["python", "-m", "services.sandbox", "--host", "0.0.0.0", "--port", "8081"]

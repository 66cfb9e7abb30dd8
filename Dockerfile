# syntax=docker/dockerfile:1
# The image: one binary on a base that has no shell, run by nobody in particular.
#
#   docker build --tag longhaul .
#   docker run --read-only --publish 127.0.0.1:8484:8484 longhaul --upstream https://openrouter.ai/api/v1
#
# With --build-arg BINARY=prebuilt nothing is compiled: the binary is dist/ARCHITECTURE/longhaul of
# this folder. So an image for two architectures needs no emulator, and a test no compiler.

ARG BINARY=compiled
# Of one Debian release with the stage that compiles: the binary links its C library.
ARG BASE=gcr.io/distroless/cc-debian13:nonroot

FROM rust:1.95-slim-trixie AS compiled
WORKDIR /src
# What `longhaul --version` says: the context holds no repository.
ARG LONGHAUL_COMMIT=
ARG LONGHAUL_COMMIT_DATE=
COPY . .
# With traces: collectors are where containers are, and nobody builds there.
# Registry and target outlive a build, so that one changed file compiles one crate.
RUN --mount=type=cache,target=/usr/local/cargo/registry,sharing=locked \
    --mount=type=cache,target=/src/target,sharing=locked \
    cargo build --locked --profile dist --bin longhaul \
    && install -D target/dist/longhaul /longhaul

FROM scratch AS prebuilt
ARG TARGETARCH
COPY --chmod=0755 dist/${TARGETARCH}/longhaul /longhaul

FROM ${BINARY} AS binary
# The empty folder of a store in a file: a new volume takes its owner from it.
WORKDIR /state

FROM ${BASE}
LABEL org.opencontainers.image.title="longhaul" \
      org.opencontainers.image.description="A reverse proxy for the APIs of OpenAI and Anthropic that keeps long agent conversations inside the model's context window" \
      org.opencontainers.image.licenses="MIT OR Apache-2.0"
COPY --from=binary /longhaul /usr/local/bin/longhaul
COPY --from=binary --chown=65532:65532 /state /var/lib/longhaul
# Only the proxy itself is for other containers; the admin listener stays on loopback unless
# LONGHAUL_ADMIN says otherwise. Who gets to a container is for its network to say, and for
# --publish; client tokens ask further.
ENV LONGHAUL_LISTEN=0.0.0.0:8484 \
    LONGHAUL_PUBLIC=true
EXPOSE 8484 8485
# By number: an orchestrator that refuses root cannot look a name up.
USER 65532:65532
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s --retries=3 \
    CMD ["/usr/local/bin/longhaul", "health"]
ENTRYPOINT ["/usr/local/bin/longhaul"]

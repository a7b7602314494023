# From the root of the repository: docker build -f deploy/docker/gateway.Dockerfile -t isthmus-gateway .
# Envoy, and the pilot's program beside it: it writes Envoy's bootstrap before the start and drains Envoy before the end.
# The last stage is also what scripts/image reads to assemble the same image without an engine: only COPY of single files there.
ARG RUST=docker.io/library/rust:1.90.0-slim-bookworm
ARG ENVOY=docker.io/envoyproxy/envoy:distroless-v1.40.0
ARG RUNTIME=docker.io/library/debian:12.11-slim

FROM ${RUST} AS build
# make: jemalloc is built from source.
RUN apt-get update && apt-get install -y --no-install-recommends make && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN cargo build --release --locked -p pilot

FROM ${ENVOY} AS envoy

FROM ${RUNTIME}
LABEL org.opencontainers.image.title="isthmus-gateway" org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=envoy /usr/local/bin/envoy /usr/local/bin/envoy
COPY --from=build /src/target/release/pilot /usr/local/bin/pilot
USER 65532:65532
EXPOSE 80 443 15021 15090
ENTRYPOINT ["/usr/local/bin/envoy"]
CMD ["-c", "/etc/envoy/bootstrap.json"]

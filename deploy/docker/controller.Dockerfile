# From the root of the repository: docker build -f deploy/docker/controller.Dockerfile -t isthmus-controller .
# The last stage is also what scripts/image reads to assemble the same image without an engine: only COPY of single files there.
ARG RUST=docker.io/library/rust:1.90.0-slim-bookworm
ARG RUNTIME=docker.io/library/debian:12.11-slim

FROM ${RUST} AS build
# make: jemalloc is built from source.
RUN apt-get update && apt-get install -y --no-install-recommends make && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN cargo build --release --locked -p controller

FROM ${RUNTIME}
LABEL org.opencontainers.image.title="isthmus-controller" org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /src/target/release/controller /usr/local/bin/controller
USER 65532:65532
EXPOSE 8888 15051
ENTRYPOINT ["/usr/local/bin/controller"]
CMD ["serve"]

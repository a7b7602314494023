# The tests' echo backend. scripts/image reads the last stage; the programs come from the debug profile.
FROM rust AS build

FROM debian
COPY --from=build /src/target/release/echo /usr/local/bin/echo
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["/usr/local/bin/echo"]

# The sandbox: remit local with its embedded chain, in memory, for tests.
#   tools/release v0.1.0
#   docker run --rm -p 127.0.0.1:8080:8080 remit:0.1.0
FROM scratch
ARG VERSION
ARG TARGETARCH=amd64
COPY remit-${VERSION}-linux-${TARGETARCH} /remit
USER 65532
EXPOSE 8080
ENTRYPOINT ["/remit", "local", "--listen", "0.0.0.0:8080", "--no-page"]

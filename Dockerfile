# krrd for the CPU: built in one stage, run from another that has programs and libraries alone.
#
#   docker build -t krrd .
#   docker run --rm -p 127.0.0.1:8080:8080 -v krrd:/var/lib/krrd krrd --insecure
#
# Without --insecure it wants API keys, in a file that its user can read: chown 10001 keys, and
# -v ./keys:/etc/krrd/keys:ro … krrd --api-keys /etc/krrd/keys
# For CUDA: Dockerfile.cuda.
ARG DEBIAN=debian:12-slim

FROM ${DEBIAN} AS build
WORKDIR /src
COPY scripts/lib.sh scripts/install-deps scripts/
RUN scripts/install-deps && rm -rf /var/lib/apt/lists/*
COPY . .
RUN meson setup /build --buildtype=release --prefix=/usr -Dtests=false -Dcuda=disabled \
    && ninja -C /build \
    && DESTDIR=/out meson install -C /build --no-rebuild --strip

FROM ${DEBIAN}
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        ca-certificates libcjson1 libcsv3 libcurl3-gnutls libgomp1 libmicrohttpd12 libnettle8 \
        libopenblas0-openmp libsqlite3-0 libstdc++6 libuv1 libzip4 zlib1g \
    && rm -rf /var/lib/apt/lists/* /usr/share/doc /usr/share/man \
    && groupadd --gid 10001 krrd \
    && useradd --uid 10001 --gid krrd --no-create-home --home-dir /var/lib/krrd --shell /usr/sbin/nologin krrd \
    && install -d -o krrd -g krrd -m 0750 /var/lib/krrd
COPY --from=build /out/usr/bin/ /usr/bin/
USER 10001:10001
ENV KRRD_LISTEN=0.0.0.0:8080 \
    KRRD_DATA_DIR=/var/lib/krrd \
    KRR_URL=http://127.0.0.1:8080
VOLUME /var/lib/krrd
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s \
    CMD ["krr", "health", "--quiet"]
ENTRYPOINT ["krrd"]

# The daemon in a container: `g2 image build --daemon` lays beside this file what is copied. docs/setup.md says how it is
# run, and which rights the engine's socket gives.
FROM scratch
COPY rootfs/ /
# Its own folder is given at the start, at the same path as outside: the engine mounts parts of it into agents' containers.
ENV PATH=/usr/local/bin HOME=/root LANG=C.UTF-8
ENTRYPOINT ["/usr/local/bin/g2"]
CMD ["serve"]

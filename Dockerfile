# creditflow with tables, plots and reports, on a CPU; no torch. From a checkout:
#   docker build -t creditflow .
#   docker run --rm -v "$PWD/runs:/data/runs" creditflow bench --preset quick --envs sokoban --out runs/demo
# The folder that is mounted must be writable for user 1000, or name yours: docker run --user "$(id -u):$(id -g)" …
FROM python:3.11-slim-bookworm AS build
WORKDIR /src
COPY . .
# the releases of `make demo`, which are those of the tier fast
RUN python -m venv /opt/creditflow \
    && /opt/creditflow/bin/python -m pip install --no-cache-dir --disable-pip-version-check -c constraints/demo.txt '.[bench]'

FROM python:3.11-slim-bookworm
COPY --from=build /opt/creditflow /opt/creditflow
RUN useradd --create-home --uid 1000 creditflow && install --directory --owner creditflow /data /data/runs
# whoever the user is, matplotlib can keep its list of fonts
ENV PATH=/opt/creditflow/bin:$PATH PYTHONSAFEPATH=1 MPLCONFIGDIR=/tmp/matplotlib
WORKDIR /data
USER 1000
# a container's first process ignores SIGTERM; by this one `docker stop` ends a command as Ctrl-C does
STOPSIGNAL SIGINT
ENTRYPOINT ["creditflow"]
CMD ["doctor"]

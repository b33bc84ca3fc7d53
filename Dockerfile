# discreet on a processor, for a user without rights and a root that is read-only. How to build and run it: docs/container.md
FROM python:3.12-slim AS build
# An index with torch's build for processors; without it, pip takes the CUDA build, which is several GB larger.
ARG TORCH_INDEX=""
WORKDIR /source
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src ./src
RUN python -m venv /opt/discreet \
    && /opt/discreet/bin/pip install --no-cache-dir --constraint constraints.txt \
        ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} ".[train,postgres]"

FROM python:3.12-slim
RUN useradd --uid 10001 --no-create-home discreet \
    && mkdir /work /ledger \
    && chown discreet /work /ledger
COPY --from=build /opt/discreet /opt/discreet
ENV PATH="/opt/discreet/bin:$PATH" \
    DISCREET_LEDGER=/ledger/ledger.sqlite \
    MPLCONFIGDIR=/tmp \
    NUMBA_CACHE_DIR=/tmp \
    PYTHONDONTWRITEBYTECODE=1
USER 10001
WORKDIR /work
VOLUME ["/work", "/ledger"]
ENTRYPOINT ["discreet"]
CMD ["--help"]

# tmuxmcp with the terminal programs that agents use. One image for every use:
#
#   docker run -i --rm tmuxmcp                     an MCP server on stdio
#   docker compose --profile shared up             an MCP server over HTTP; see compose.yaml
#   docker build --target workbench -t tmuxmcp .   the same with what programmers expect: compilers, ssh, ripgrep ...
#
# Everything that outlives a container is in /state. The user is no one special and the root file system may be
# read-only.
ARG PYTHON=3.13

FROM python:${PYTHON}-slim-bookworm AS build
WORKDIR /src
COPY requirements/run.txt requirements/
# The pip of this stage puts everything in place: the environment needs none of its own.
RUN python -m venv --without-pip /opt/tmuxmcp \
    && python -m pip --python /opt/tmuxmcp install --no-cache-dir --require-hashes -r requirements/run.txt
COPY . .
# The pins hold the build backend as well, which has nothing to do in the image afterwards.
RUN python -m pip --python /opt/tmuxmcp install --no-cache-dir --no-deps --no-build-isolation . \
    && python -m pip --python /opt/tmuxmcp uninstall -q -y editables hatchling pathspec pluggy trove-classifiers

FROM python:${PYTHON}-slim-bookworm AS slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends bash git less ncurses-term procps tini tmux vim-tiny zsh \
    && rm -rf /var/lib/apt/lists/* \
    && ln -s vim.tiny /usr/bin/vim \
    && python -m pip uninstall -q -y pip
# Open to whatever user `--user` names: in /state each has a directory of its own. The link is the usual user's socket.
RUN useradd --uid 10001 --user-group --create-home --shell /bin/bash agent \
    && install -d -o agent -g agent -m 1777 /state /work /home/agent \
    && ln -s 10001/tmux.sock /state/tmux.sock
COPY --from=build /opt/tmuxmcp /opt/tmuxmcp
# Who may run a program and not read it is not shown what it was started with either, from its first instant on
# (PR_SET_DUMPABLE in prctl(2)): sessions see nothing of `docker exec ... tmuxmcp` and of health checks. Other programs go
# by the usual Python, whose processes can be seen and debugged.
RUN install -m 0111 /usr/bin/env /usr/local/bin/unseen-env \
    && install -m 0111 "$(realpath /opt/tmuxmcp/bin/python)" /opt/tmuxmcp/bin/unseen-python \
    && printf '%s\n' '#!/opt/tmuxmcp/bin/unseen-python' 'import sys' 'sys.executable = "/opt/tmuxmcp/bin/python"' \
        'from tmuxmcp.__main__ import run' 'run()' >/opt/tmuxmcp/bin/tmuxmcp
ENV PATH=/opt/tmuxmcp/bin:$PATH \
    HOME=/home/agent \
    LANG=C.UTF-8 \
    PYTHONUNBUFFERED=1 \
    TMUXMCP_PROGRAM=bash \
    TMUXMCP_STATE_DIR=/state
LABEL io.modelcontextprotocol.server.name="io.github.tmuxmcp/tmuxmcp"
USER agent
WORKDIR /work
VOLUME /state
# The tmux server is what sessions live in; the broker beside it answers or its process is gone.
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s \
    CMD ["unseen-env", "-i", "sh", "-c", "cd /state; cd $(id -u) 2>/dev/null; tmux -N -S tmux.sock display-message -p ok"]
# As process 1 it puts tini in its place, to collect what sessions leave behind, with an environment without secrets.
ENTRYPOINT ["tmuxmcp"]
CMD ["serve"]

FROM slim AS workbench
USER root
RUN apt-get update \
    && apt-get install -y --no-install-recommends \
        ca-certificates curl file gcc jq libc6-dev make openssh-client patch ripgrep tree unzip xz-utils \
    && rm -rf /var/lib/apt/lists/*
USER agent

# What is built unless --target says otherwise.
FROM slim

"""The image that the charts of this folder run: a busybox that serves a greeting, or what else it is told to."""

from __future__ import annotations

from typing import Final

CONTAINERFILE: Final = """\
FROM scratch
COPY busybox /bin/busybox
COPY busybox /bin/sh
ENV GREETING="from the image" PORT=3000
WORKDIR /www
CMD ["/bin/sh", "-c", "echo $GREETING > index.html; exec /bin/busybox httpd -f -p $PORT"]
STOPSIGNAL SIGKILL
"""

"""Objects of kernels that were compiled before, on disk and, those used last, in memory.

A program that has the same kernels as another is compiled without LLVM. Each file holds an object
behind its checksum, and is named by the hash of what the object was made of.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections import OrderedDict

from hloom.runtime.cache_files import CacheFiles
from hloom.runtime.loaded_program import crc32
from hloom.runtime.private_folder import NotPrivate
from hloom.runtime.program_files import contents

LOG = logging.getLogger("hloom")
OBJECT_SUFFIX = ".object"
OBJECT_HEAD = b"hloom object 1\n"
IN_MEMORY_BYTES = 16 << 20
"""Of objects; a kernel has 2 to 20 KB."""


class ObjectCache:
    """The objects among some files. Any number of threads and processes may use it at once."""

    def __init__(self, files: CacheFiles) -> None:
        self.files = files
        self._lock = threading.Lock()
        self._objects: OrderedDict[str, bytes] = OrderedDict()
        """Those used last; the latest stands last."""
        self._bytes = 0

    def object(self, key: str) -> bytes | None:
        """The object of a key, or None. A file that is damaged is removed."""
        with self._lock:
            if (content := self._objects.get(key)) is not None:
                self._objects.move_to_end(key)
                return content
        path = self.files.folder / (key + OBJECT_SUFFIX)
        try:
            if not path.exists() or not self.files.is_private():
                return None
            data = bytes(contents(path))
        except (OSError, NotPrivate) as error:
            self.files.warn("read", error)
            return None
        head, content = data[: len(OBJECT_HEAD) + 4], data[len(OBJECT_HEAD) + 4 :]
        if head != _object_head(content):
            LOG.info("removing %s: it is damaged", path)
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # used last now
        self._remember(key, content)
        return content

    def put_object(self, key: str, content: bytes) -> None:
        """Keep an object; trouble with the disk is reported once."""
        self._remember(key, content)
        data = [_object_head(content), content]
        is_written = self.files.write(self.files.folder / (key + OBJECT_SUFFIX), data)
        if is_written and self.files.is_trim_due(len(content)):
            self.files.trim()

    def _remember(self, key: str, content: bytes) -> None:
        """Keep an object in memory, and forget those used longest ago."""
        with self._lock:
            if key not in self._objects:
                self._objects[key] = content
                self._bytes += len(content)
            while self._bytes > IN_MEMORY_BYTES:
                _, gone = self._objects.popitem(last=False)
                self._bytes -= len(gone)

    def forget(self) -> None:
        """Keep none in memory."""
        with self._lock:
            self._objects.clear()
            self._bytes = 0


def _object_head(content: bytes) -> bytes:
    """What an object's file begins with: what it is, and its checksum."""
    return OBJECT_HEAD + crc32(content).to_bytes(4, "little")

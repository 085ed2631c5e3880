"""A hub for tests: an organisation's repositories, some of them secret, and somebody who asks with a token."""

from __future__ import annotations

import http.client
import json
import time
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

from source.making import Repository

from knowingd.node import Options
from knowingd.source import Location
from knowingd.store.peerstore import TokenRow
from knowingd.sync.tokens import new_token
from support.cluster import Machine

SECRET = "github.com/secret/plans"
REPOSITORIES = {
    "github.com/acme/lib": {
        "pyproject.toml": '[project]\nname = "lib"\n[tool.setuptools]\npackages = ["lib"]\n',
        "lib/__init__.py": "from ._core import Client, make\n",
        "lib/_core.py": (
            "import hashlib\n\n\nclass Base:\n    def close(self):\n        pass\n\n\nclass Client(Base):\n"
            "    def send(self, data):\n        return hashlib.md5(data)\n\n\n"
            "def make() -> Client:\n    return Client()\n"
        ),
    },
    "github.com/acme/app": {
        "app.py": (
            "import lib\nimport plans\n\n\ndef go(x):\n    client = lib.make()\n    client.send(b'')\n"
            "    plans.launch()\n    x.send()\n"
        ),
        "one.py": "def twice():\n    pass\n",
        "two.py": "def twice():\n    pass\n",
    },
    # It calls what others see, defines what others use, and claims a name that others have.
    SECRET: {
        "pyproject.toml": '[project]\nname = "plans"\n[tool.setuptools]\npackages = ["plans", "lib"]\n',
        "plans/__init__.py": (
            "import hashlib\n\nimport lib\n\n\ndef launch():\n    return lib.make().send(hashlib.md5(b''))\n\n\n"
            "def go(x):\n    x.send()\n    return launch()\n"
        ),
        "lib/__init__.py": "def make():\n    return None\n\n\ndef hidden():\n    return make()\n",
        "notes.txt": "not covered\n",
    },
}


Question = tuple[str, dict[str, object]]
QUESTIONS: list[Question] = [
    ("callers", {"symbol": "lib.Client.send"}),
    ("callers", {"symbol": "lib.Client.send", "include_unresolved": "true", "depth": 3, "type": "uses"}),
    ("callers", {"symbol": "send"}),
    ("callers", {"symbol": "lib.make", "repo": "*"}),
    ("callers", {"symbol": "lib.make", "repo": SECRET}),
    ("callers", {"symbol": "hashlib.md5"}),
    ("callers", {"symbol": "plans.launch"}),
    ("callers", {"symbol": "python://plans.launch"}),
    ("callers", {"symbol": "python://lib.hidden"}),
    ("callers", {"symbol": "hidden"}),
    ("callers", {"symbol": "twice"}),
    ("callers", {"symbol": "plans:launch"}),
    ("callees", {"symbol": "go"}),
    ("callees", {"symbol": "go", "include_unresolved": "true"}),
    ("callees", {"symbol": "launch"}),
    ("search", {"query": "launch"}),
    ("search", {"query": "go make send", "limit": 1000}),
    ("search", {"query": "make", "repo": SECRET}),
    ("dangling", {}),
    ("dangling", {"by": "reason"}),
    ("dangling", {"by": "module"}),
    ("dangling", {"repo": SECRET}),
    ("dangling", {"repo": "plans"}),
    ("dangling", {"repo": "app"}),
    ("repos", {}),
    ("stats", {}),
    ("stats", {"repo": SECRET}),
    ("stats", {"repo": "lib"}),
]


def name_of(question: Question) -> str:
    return " ".join((question[0], *map(str, question[1].values())))


class Hub(Machine):
    """A node that has them all."""

    def index(self, places: Path) -> None:
        for url, files in REPOSITORIES.items():
            made = Repository(places / url)
            for path, content in files.items():
                made.write(path, content)
            made.commit()
            self.node.add(Location(path=made.path), url=url, options=Options())

    def token(self, pattern: str, scope: str = "read", *, expires: int | None = None) -> str:
        made = new_token()
        now = int(time.time())
        self.federation.peers.add_token(TokenRow(made.id, made.digest, scope, pattern, "", now, expires=expires))
        return made.text


class Answer(NamedTuple):
    """What came back, without what differs between any two requests."""

    status: int
    headers: dict[str, str]
    body: str


def get(url: str, path: str, token: str | None = None, **headers: str) -> Answer:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    try:
        authorization = {} if token is None else {"Authorization": f"Bearer {token}"}
        connection.request("GET", path, headers={**authorization, **headers})
        response = connection.getresponse()
        body = response.read().decode()
    finally:
        connection.close()
    fields = {name: value for name, value in response.getheaders() if name not in ("Date", "Knowing-Request")}
    request = response.headers["Knowing-Request"]
    if response.status != 200:
        assert json.loads(body)["request"] == request
    return Answer(response.status, fields, body.replace(request, ""))


def ask(url: str, name: str, token: str | None, **parameters: object) -> Answer:
    given = {key.replace("_", "-"): value for key, value in parameters.items()}
    return get(url, f"/v1/{name}?{urlencode(given)}", token)

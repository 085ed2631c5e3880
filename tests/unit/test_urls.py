import time

import pytest
from knowing_protocol.errors import InvalidNameError
from knowing_protocol.urls import (
    CASE_IGNORING_HOSTS,
    LOCAL_HOST,
    MAXIMUM_BYTES,
    canonical_url,
    is_canonical_url,
    local_name,
    matches,
)

ONE_REPOSITORY = [
    "github.com/org/repo",
    "https://github.com/Org/Repo.git",
    "git@github.com:org/repo",
    "ssh://git@github.com:22/org/repo/",
    "git://github.com/org/repo.git",
    "git://github.com:9418/org/repo",
    "http://github.com:80/org/repo",
    "https://github.com:443/org/repo",
    "git+ssh://git@github.com/org/repo.git",
    "git+https://github.com/org/repo.GIT",
    "HTTPS://GitHub.COM./org/repo",
    "https://user:secret@github.com/org/repo",
    "https://github.com/org/repo?tab=readme#usage",
    "https://github.com//org/./repo///",
    "https://github.com/%6Frg/rep%6f",
    "https://github.com/org/repo/.git",
    "https://www.github.com/org/repo",
    "ssh://git@ssh.github.com:443/org/repo.git",
    "git@ssh.github.com:org/repo.git",
    "git@github.com:/org/repo",
    "git@github.com/org/repo",
    "github.com:org/repo",
    "github.com:443/org/repo",
]


@pytest.mark.parametrize("spelling", ONE_REPOSITORY)
def test_every_spelling_of_one_repository_is_one_url(spelling: str) -> None:
    assert canonical_url(spelling) == "github.com/org/repo"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://git.example.org/Team/Repo", "git.example.org/Team/Repo"),
        ("https://git.example.org:8443/a/b", "git.example.org:8443/a/b"),
        ("git.example.org:08443/a/b", "git.example.org:8443/a/b"),
        ("ssh://git@gerrit:29418/platform/build", "gerrit:29418/platform/build"),
        ("http://h:22/x", "h:22/x"),
        ("h:22/x", "h:22/x"),
        ("git@h:22/x", "h/22/x"),
        ("a:8080/x", "a:8080/x"),
        ("https://file:81/x", "file:81/x"),
        ("https://h:/x", "h/x"),
        ("ssh://h/~user/repo", "h/~user/repo"),
        ("git@h:~/repo", "h/~/repo"),
        ("https://altssh.gitlab.com:443/A/b", "gitlab.com/a/b"),
        ("ssh://git@altssh.bitbucket.org:443/A/b.git", "bitbucket.org/a/b"),
        ("https://github.com:8443/Org/Repo", "github.com:8443/org/repo"),
        ("git@github.com-work:Org/Repo", "github.com-work/Org/Repo"),
        ("https://[2001:DB8::1]/a", "[2001:db8::1]/a"),
        ("https://[2001:db8:0:0:1:0:0:1]:8443/a", "[2001:db8::1:0:0:1]:8443/a"),
        ("git@[::1]:a/b", "[::1]/a/b"),
        ("[::ffff:1.2.3.4]:99/a", "[::ffff:102:304]:99/a"),
        ("https://[::]/a", "[::]/a"),
        ("https://[1:2:3:4:5:6:7:8]/a", "[1:2:3:4:5:6:7:8]/a"),
        ("https://dev.azure.com/org/My%20Project/_git/r", "dev.azure.com/org/My%20Project/_git/r"),
        ("https://h/%c3%a9", "h/%C3%A9"),
        ("https://h/é", "h/%C3%A9"),
        ("https://github.com/o/É", "github.com/o/%C3%89"),
        ("https://h/a%2fb", "h/a%2Fb"),
        ("https://h/a+b@c", "h/a+b@c"),
        ("https://h/a%2Bb", "h/a%2Bb"),
        ("https://h/a|b", "h/a%7Cb"),
        ("https://h/x.wiki.git", "h/x.wiki"),
        ("https://xn--bcher-kva.example/x", "xn--bcher-kva.example/x"),
    ],
)
def test_a_url_becomes_host_port_and_path(text: str, expected: str) -> None:
    assert canonical_url(text) == expected
    assert canonical_url(expected) == expected


@pytest.mark.parametrize("host", sorted(CASE_IGNORING_HOSTS))
def test_path_case_is_folded_only_for_the_listed_hosts(host: str) -> None:
    assert canonical_url(f"https://{host}/Org/Repo") == f"{host}/org/repo"
    assert canonical_url(f"https://www.{host}/Org/Repo") == f"{host}/org/repo"
    assert canonical_url(f"https://git.{host}/Org/Repo") == f"git.{host}/Org/Repo"


MALFORMED = {
    "empty": "",
    "host alone": "https://github.com",
    "host and slash alone": "https://github.com/",
    "only dots in the path": "https://github.com/./.",
    "only .git in the path": "https://github.com/.git",
    ".git twice": "https://h/a.git.git",
    ".git below .git": "https://h/a.git/.git",
    "a dot before .git": "https://h/a/..git",
    "two dots before .git": "https://h/a/...git",
    "no slash and no colon": "repo",
    "upwards": "https://h/a/../b",
    "escaped upwards": "https://h/a/%2E%2e/b",
    "truncated escape": "https://h/a%2",
    "escape without digits": "https://h/a%zz",
    "escaped NUL": "https://h/a%00",
    "escaped newline": "https://h/a%0A",
    "escaped backslash": "https://h/a%5cb",
    "NUL": "https://h/a\0",
    "newline": "https://h/a\nb",
    "C1 control": "https://h/a\x85b",
    "space": "https://h/a b",
    "backslash": "https://h/a\\b",
    "lone surrogate": "https://h/\ud800",
    "unknown scheme": "ftp://h/a",
    "scheme without slashes": "https:/github.com/a/b",
    "missing host": "https:///a/b",
    "only user info": "https://git@/a",
    "port is no number": "https://h:abc/a",
    "port zero": "https://h:0/a",
    "port too large": "https://h:65536/a",
    "port in other digits": "https://h:\u0661/a",
    "port of thousands of digits": "https://h:" + "9" * 4000 + "/a",
    "empty label": "https://a..b/c",
    "label with a hyphen first": "ssh://-oProxyCommand=x/a",
    "label too long": f"https://{'a' * 64}.com/x",
    "host too long": f"https://{'a.' * 127}com/x",
    "host with an escape": "https://h%41/a",
    "host not ASCII": "https://bücher.example/x",
    "brackets not closed": "https://[::1/a",
    "text after brackets": "https://[::1]x/a",
    "no address in brackets": "https://[hello]/a",
    "IPv6 zone": "https://[fe80::1%25eth0]/a",
    "password without a scheme": "user:password@github.com/org/repo",
    "two at signs in scp syntax": "a@b@c:org/repo",
    "reserved host": "https://local/x",
    "reserved host in capitals": "LOCAL/x",
    "reserved host with a port": "ssh://local:2222/x",
    "too long": "https://h/" + "a" * MAXIMUM_BYTES,
    "too long in UTF-8": "https://h/" + "é" * 2048,
    "too long when escaped": "https://h/" + "é" * 1000,
    "local without a name": "local/",
    "local upwards": "local/../x",
}


@pytest.mark.parametrize("text", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_url_is_refused(text: str) -> None:
    with pytest.raises(InvalidNameError):
        canonical_url(text)
    assert not is_canonical_url(text)


MACHINE_PATHS = {
    "file URL": "file:///home/me/repo",
    "file URL in capitals": "FILE:///home/me/repo",
    "file URL with one slash": "file:/home/me/repo",
    "file URL for pip": "git+file:///home/me/repo",
    "absolute": "/home/me/repo",
    "network share": "//server/share",
    "relative": "./repo",
    "relative upwards": "../repo",
    "this directory": ".",
    "the directory above": "..",
    "home": "~/repo",
    "home of another user": "~me/repo",
    "drive": "C:\\work\\repo",
    "drive with slashes": "c:/work/repo",
    "drive, relative": "c:repo",
    "UNC": "\\\\server\\share",
}


@pytest.mark.parametrize("text", MACHINE_PATHS.values(), ids=MACHINE_PATHS.keys())
def test_a_path_of_the_machine_is_refused_with_the_hint_to_give_a_name(text: str) -> None:
    for make in (canonical_url, local_name):
        if make is local_name and "file:" in text.lower():
            continue  # taken literally, it is an odd name but no path
        with pytest.raises(InvalidNameError) as caught:
            make(text)
        assert "name" in caught.value.hint


def test_no_message_quotes_a_password() -> None:
    for text in ("https://me:hunter2@h", "me:hunter2@h/x", "https://me:hunter2@h/..", "https://me:hunter2/@h/x"):
        with pytest.raises(InvalidNameError) as caught:
            canonical_url(text)
        assert "hunter2" not in str(caught.value.as_json())


def test_only_the_canonical_spelling_is_canonical() -> None:
    assert is_canonical_url("github.com/org/repo")
    assert is_canonical_url("local/x")
    assert not is_canonical_url("https://github.com/org/repo")
    assert not is_canonical_url("github.com/Org/repo")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("payments", "local/payments"),
        ("team/payments.v2", "local/team/payments.v2"),
        ("My repo", "local/My%20repo"),
        ("a%20b", "local/a%2520b"),
        ("x.git", "local/x.git"),
        ("é", "local/%C3%A9"),
        ("a//b/./c/", "local/a/b/c"),
        ("what?#", "local/what%3F%23"),
    ],
)
def test_a_local_name_keeps_small_letters_and_escapes_the_rest(name: str, expected: str) -> None:
    assert local_name(name) == expected
    assert canonical_url(expected) == expected
    assert expected.startswith(LOCAL_HOST + "/")


@pytest.mark.parametrize("name", ["", "/", ".", "..", "a/../b", "a\\b", "a\0", "a\n", "\ud800", "é" * 1000, "a" * 4097])
def test_a_local_name_that_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidNameError):
        local_name(name)


def test_local_spellings_are_one_name() -> None:
    assert canonical_url("local/x") == "local/x"
    assert canonical_url("local/My") == canonical_url("local/%4dy") == local_name("My")


@pytest.mark.parametrize(
    ("pattern", "url"),
    [
        ("github.com/org/repo", "github.com/org/repo"),
        ("*", "github.com/org/repo"),
        ("*", ""),
        ("", ""),
        ("github.com/org/*", "github.com/org/a/b"),
        ("*/repo", "github.com/org/repo"),
        ("github.com/*/re?o", "github.com/org/repo"),
        ("**a**", "xxaxx"),
        ("?*?", "ab"),
        ("[a]", "[a]"),
        ("*ab*ab", "abxabab"),
    ],
)
def test_a_glob_matches_across_slashes(pattern: str, url: str) -> None:
    assert matches(pattern, url)


@pytest.mark.parametrize(
    ("pattern", "url"),
    [
        ("github.com/org", "github.com/org/repo"),
        ("org/repo", "github.com/org/repo"),
        ("GitHub.com/*", "github.com/org"),
        ("?", ""),
        ("?", "ab"),
        ("[ab]", "a"),
        ("a*b", "abc"),
        ("", "a"),
    ],
)
def test_a_glob_does_not_match(pattern: str, url: str) -> None:
    assert not matches(pattern, url)


@pytest.mark.parametrize("pattern", ["*a" * 2047 + "b", "*" + "a" * 4000 + "b", "*?a" * 1365, "*" * 4096, "?" * 4096])
def test_no_glob_is_slow(pattern: str) -> None:
    started = time.process_time()
    matches(pattern, "a" * 4096)
    assert time.process_time() - started < 0.5


def test_an_oversized_glob_is_refused() -> None:
    for pattern, url in (("*" * 4097, "a"), ("*", "a" * 4097), ("\ud800", "a"), ("a", "\ud800")):
        with pytest.raises(InvalidNameError):
            matches(pattern, url)

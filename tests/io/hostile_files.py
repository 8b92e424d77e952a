"""Files of a few megabytes made to cost time and memory, and the code each is refused with."""

from __future__ import annotations

from file_makers import GRAPHML, Build, declared_size, file, member, npy, tables

SIZE = 5_000_000

_columns = ",".join(f"c{column}" for column in range(99_999))
_defaults = "".join(f'<key id="k{n}" for="node" attr.type="int"><default>1</default></key>' for n in range(20_000))
_many = "".join(f'<node id="{n}"/>' for n in range(100_000))
HOSTILE: dict[str, tuple[Build, str]] = {
    "line": (tables(nodes="id,x\n" + "a" * SIZE), "E-LINE-LEN"),
    "wide": (tables(nodes=f"id,{_columns}\n" + f"a{',1' * 99_999}\n" * 20), "E-NODE-DUP"),
    "wide text": (tables(nodes=f"id,{_columns}\n" + f"a{',b' * 99_999}\n" * 20), "E-FEAT-TYPE"),
    "blank": (tables(nodes="id,x\n" + "\n" * SIZE), "E-EMPTY"),
    "quotes": (tables(nodes="id,x\n" + '"\n' * (SIZE // 2)), "E-ROW-LEN"),
    "open quote": (tables(nodes='id,x\n"' + "a\n" * (SIZE // 2)), "E-QUOTE"),
    "ragged": (tables(nodes="id,x\n" + "1\n" * (SIZE // 2)), "E-ROW-LEN"),
    "settings": (tables(settings="classes:\n" + "- a\n" * 240_000), "E-YAML"),
    "zip directory": (declared_size(1_600_000_000), "E-BOMB"),
    "array header": (member("features.npy", npy((10**6, 10**6))), "E-HEADER-LIE"),
    "defaults": (file("g.graphml", f"{GRAPHML}{_defaults}<graph>{_many}</graph></graphml>".encode()), "E-BOMB"),
    "tag": (file("g.graphml", f"{GRAPHML}<graph><node id='{'a' * SIZE}'/></graph></graphml>".encode()), "E-LINE-LEN"),
    "drawings": (file("g.graphml", f"{GRAPHML}{'<a/>' * (SIZE // 4)}</graphml>".encode()), "E-BOMB"),
}

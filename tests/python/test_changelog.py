"""CHANGELOG.md is a list of facts, each short."""

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "CHANGELOG.md"
MOST_WORDS = 25


def test_facts_are_short():
    facts = re.findall(r"^- (.*(?:\n  .*)*)", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(facts) > 50
    assert [fact for fact in facts if len(fact.split()) > MOST_WORDS] == []

# SPDX-License-Identifier: MIT
"""One mark of one job: the bytes that are tagged right, wrong, and as what the job does not know.

A block may have several true names: a result that is saved for the backward and held by a variable is both an activation
and an output. What else is accepted is counted, by name, in `accepted`:

held     `outputs` for what is saved for the backward, where a later mark finds the block still there and no longer saved:
         held after the backward that used it, which is what the word means.
open     at a cut: `activations` for a result that is part of a live graph. Only the future tells whether it is held.
making   no false claim: `gradients` for what the job knows as a gradient at the next mark only, after this backward.
buckets  no false claim: DDP's and ZeRO's flat buffers of gradients, which no Python object knows.

That something unknown to the job is called `outputs` is no false claim: it says that it is held, as garbage in cycles is,
and that it is still there proves it."""
import collections

CLAIMS = {"weights", "gradients", "optimizer", "activations", "inputs"}  # what the job would know


class Comparison:
    """`truth`: what the job knows at this mark, `blocks`: {address: (bytes, tag, detail, identity)} found there.
    `later` is a list of pairs of the same for the marks that follow; `cut`: the tags are of a trace that ends here."""

    def __init__(self, truth, blocks, later=(), cut=False):
        self.known = self.right = self.false = 0
        self.allocated = sum(size for size, *_ in blocks.values())
        self.wrong, self.accepted = collections.Counter(), collections.Counter()
        self.examples = {}
        places = {int(address, 16): what for address, what in truth.items()}
        for address, what in places.items():
            block = blocks.get(address, (what["bytes"], "absent", "", None))
            size, tag, detail, identity = block
            self.known += size
            why = None
            if tag not in what["tags"]:
                if tag == "outputs" and "activations" in what["tags"] and held(address, identity, later):
                    why = "held"
                elif cut and tag == "activations" and "outputs" in what["tags"] and what.get("graph"):
                    why = "open"
                else:
                    self.note(f"{'+'.join(what['tags'])} taken for {full(tag, detail)}", size, address)
                    continue
                self.accepted[why] += size
            self.right += size
        following = later[0][0] if later else {}
        for address, (size, tag, detail, _) in blocks.items():
            if address in places or tag not in CLAIMS:
                continue
            if tag == "gradients" and "gradients" in following.get(hex(address), {"tags": ()})["tags"]:
                self.accepted["making"] += size
            elif (tag, detail) == ("gradients", "buckets"):
                self.accepted["buckets"] += size
            else:
                self.false += size
                self.note(f"nothing known taken for {full(tag, detail)}", size, address)

    def note(self, what, size, address):
        self.wrong[what] += size
        self.examples.setdefault(what, hex(address))

    @property
    def share_right(self):
        return self.right / self.known if self.known else 1.0

    @property
    def share_false(self):
        return self.false / self.allocated if self.allocated else 0.0

    @property
    def share_accepted(self):
        return sum(self.accepted.values()) / self.allocated if self.allocated else 0.0

    def describe(self):
        pairs = [f"{what} {size} ({self.examples[what]})" for what, size in self.wrong.most_common(4)]
        pairs += [f"accepted as {why} {size}" for why, size in self.accepted.most_common()]
        return f"{self.right} of {self.known} right; {'; '.join(pairs)}"


def full(tag, detail):
    return f"{tag}/{detail}" if detail else tag


def held(address, identity, later):
    for truth, blocks in later:
        if address not in blocks or blocks[address][3] != identity:
            return False
        if "activations" not in truth.get(hex(address), {"tags": ()})["tags"]:
            return True
    return False


def compare_all(truths, blocks, found, cut=False):
    """{mark: Comparison} of a job's marks in order. `blocks`: what was found at each mark, in a trace that ends there where
    `cut`; `found`: in the whole trace."""
    marks = list(truths)
    return {
        mark: Comparison(
            truths[mark]["blocks"], blocks[mark], [(truths[m]["blocks"], found.get(m, {})) for m in marks[i + 1 :]], cut
        )
        for i, mark in enumerate(marks)
        if mark in blocks
    }

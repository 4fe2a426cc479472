# SPDX-License-Identifier: MIT
"""One mark of one job: the bytes that are tagged right, wrong, and as what the job does not know.

Two things are known though no Python object at this mark has them:

the gradient in the making: no one's now, and the .grad of a parameter at the next mark, the same block still. In the
middle of a backward autograd holds it, or the compiled function that returns all its gradients at once.

DDP's buckets: c10d's Reducer has them, in C++. How many bytes they are is known, those of the trained parameters; so
many must be tagged `gradients/buckets`. What is missing is wrong; what is too much, beyond what the allocator may leave
at a block's end, is a false claim.

A block may have several true names: a result that is saved for the backward and held by a variable is both an activation
and an output. What else is accepted is counted, by name, in `accepted`:

held     `outputs` for what is saved for the backward, where a later mark finds the block still there and no longer saved:
         held after the backward that used it, which is what the word means. (`compile`: the logits of the first step,
         in a cycle of what traced them, until the garbage is collected.)
open     at a cut: `activations` for a result that is part of a live graph. Only the future tells whether it is held.
making   no false claim, where it is not known whether a block is still the same (snapshots): `gradients` for what has
         the address of one at the next mark.

That something unknown to the job is called `outputs` is no false claim: it says that it is held, as garbage in cycles is,
and that it is still there proves it."""
import collections

CLAIMS = {"weights", "gradients", "optimizer", "activations", "inputs"}  # what the job would know
REMAINDER = 1 << 20  # bytes that the allocator may leave at the end of a block (CUDACachingAllocator.cpp, kSmallSize)


class Comparison:
    """`truth`: what the job knows at this mark, `blocks`: {address: (bytes, tag, detail, identity)} found there.
    `later` is a list of pairs of the same for the marks that follow; `cut`: the tags are of a trace that ends here.
    `buckets`: bytes of DDP's buckets."""

    def __init__(self, truth, blocks, later=(), cut=False, buckets=0):
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
        in_buckets = {}
        for address, (size, tag, detail, identity) in blocks.items():
            if address in places:
                continue
            if buckets and (tag, detail) == ("gradients", "buckets"):
                in_buckets[address] = size
            elif identity is not None and becomes_gradient(address, identity, later):
                self.known += size
                if tag == "gradients":
                    self.right += size
                else:
                    self.note(f"gradients in the making taken for {full(tag, detail)}", size, address)
            elif tag == "gradients" and identity is None and becomes_gradient(address, identity, later):
                self.accepted["making"] += size
            elif tag in CLAIMS:
                self.false += size
                self.note(f"nothing known taken for {full(tag, detail)}", size, address)
        self.compare_buckets(buckets, in_buckets)

    def compare_buckets(self, wanted, found):
        total = sum(found.values())
        self.known += wanted
        self.right += min(total, wanted)
        if total < wanted:
            self.note("gradients in buckets not found", wanted - total, 0)
        if total > wanted + REMAINDER * len(found):
            self.false += total - wanted
            self.note("more than there are of gradients taken for gradients/buckets", total - wanted, next(iter(found)))

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


def becomes_gradient(address, identity, later):
    if not later:
        return False
    truth, blocks = later[0]
    there = address in blocks and blocks[address][3] == identity
    return there and "gradients" in truth.get(hex(address), {"tags": ()})["tags"]


def compare_all(truths, blocks, found, cut=False):
    """{mark: Comparison} of a job's marks in order. `blocks`: what was found at each mark, in a trace that ends there where
    `cut`; `found`: in the whole trace."""
    marks = list(truths)
    return {
        mark: Comparison(
            truths[mark]["blocks"], blocks[mark], [(truths[m]["blocks"], found.get(m, {})) for m in marks[i + 1 :]], cut,
            truths[mark].get("buckets", 0),
        )
        for i, mark in enumerate(marks)
        if mark in blocks
    }

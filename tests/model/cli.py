#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""vramreport plan, float, compare and extrapolate as a user meets them: cli.py VRAMREPORT."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

program = sys.argv[1]
failures = 0


def run(*arguments):
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=60)


def check(condition, *what):
    global failures
    if not condition:
        failures += 1
        print("FAILED:", *what)


def refused(*arguments):
    """Bad usage or input: status 2, one line on stderr, nothing on stdout."""
    out = run(*arguments)
    check(out.returncode == 2, arguments, out.returncode, out.stderr)
    check(out.stderr.count("\n") == 1 and out.stderr.startswith("vramreport: "), arguments, repr(out.stderr))
    check(out.stdout == "", arguments, out.stdout[:200])


def test_article_000_example():
    out = run("plan", "--formula", "article-000", "--parameters", "7e9", "--layers", 32, "--hidden", 4096,
              "--heads", 32, "--ffn", 11008, "--vocab", 32000, "--batch", 1, "--seq", 2048)
    for text in ("112.00 GB", "104.31 GiB", "1.12 GB", "35.97 GB", "147.97 GB", "2 cards"):
        check(text in out.stdout, text, out.stdout)


def test_article_004_example():
    out = run("plan", "--formula", "article-004", "--parameters", "7B", "--layers", 32, "--hidden", 4096,
              "--heads", 32, "--ffn", 11008, "--vocab", 32000, "--batch", 1, "--seq", 4096)
    for text in ("14.00 GB", "28.00 GB", "56.00 GB", "112.00 GB", "12.88 GB", "124.88 GB"):
        check(text in out.stdout, text, out.stdout)
    longer = run("plan", "--formula", "article-004", "--parameters", "7B", "--layers", 32, "--hidden", 4096,
                 "--heads", 32, "--ffn", 11008, "--vocab", 32000, "--seq", 32768)
    check("103.08 GB" in longer.stdout, longer.stdout)


def test_number_alone():
    out = run("plan", "--formula", "article", "--parameters", "13e9")
    check(out.returncode == 0 and "208.00 GB" in out.stdout, out.stdout, out.stderr)
    refused("plan", "--parameters", "13e9")


def test_plan_json():
    out = run("plan", "--preset", "llama-2-7b", "--gpu", "a100-80", "--json", "--sweep", "batch")
    answer = json.loads(out.stdout)
    check(out.returncode == 0 and answer["fits"] is True and answer["gpus_needed"] == 1, out.stdout[:300])
    check(answer["schema"] == "vramshim/plan/1" and answer["model"]["parameters"] == 6738415616)
    check(sum(row["refined_bytes"] for row in answer["rows"]) == answer["peak"]["refined_bytes"], "rows sum to the peak")
    check(answer["peak"]["instant"] == "optimizer step")
    sweep = answer["sweep"]
    check([p["value"] for p in sweep][:3] == [1, 2, 4] and sweep[-1]["fits"] is False, sweep)
    check(any(r["name"] == "fused optimizer step" and r["saves_bytes"] > 12 << 30 for r in answer["remedies"]))


def test_does_not_fit():
    out = run("plan", "--preset", "llama-2-7b", "--gpu", "a100-80", "--precision", "bf16-master", "--json")
    answer = json.loads(out.stdout)
    check(out.returncode == 1 and answer["fits"] is False and answer["gpus_needed"] == 2, out.returncode)
    check(answer["gpu"]["gpus_by_sharding"]["ddp"] is None, answer["gpu"])
    out = run("plan", "--preset", "llama-2-7b", "--gpu", "a100-80", "--precision", "bf16-master")
    check(out.returncode == 1 and "It does not fit" in out.stdout and "DDP never" in out.stdout, out.stdout)


def test_nothing_fits():
    out = run("plan", "--preset", "llama-3.1-405b", "--gpu", "a100-80")
    check(out.returncode == 1 and out.stdout.startswith("It does not fit"), out.stdout[:200])
    check("batch 0" not in out.stdout and "Not even batch 1 fits" in out.stdout, out.stdout)
    answer = json.loads(run("plan", "--preset", "llama-3.1-405b", "--gpu", "a100-80", "--json").stdout)
    check(answer["gpu"]["largest"]["batch"] == 0 and answer["routes"], answer["gpu"])
    check(all(route["gpus"] > 1 for route in answer["routes"]), answer["routes"])
    out = run("plan", "--preset", "deepseek-v3", "--gpu", "t4")
    check("Nothing tried makes it fit" in out.stdout, out.stdout)


def test_article_000_rescue_list():
    """Batch 1, checkpointing at 20-30 % of the speed, ZeRO and offload, LoRA and QLoRA; accumulation saves nothing."""
    out = run("plan", "--preset", "llama-2-7b", "--precision", "bf16-master", "--batch", 4, "--gpu", "a100-80").stdout
    for text in ("micro-batch of 1", "checkpointing, full", "20-30 % slower", "ZeRO-1", "ZeRO-2", "ZeRO-3", "LoRA",
                 "optimizer states on the CPU", "QLoRA", "accumulation by itself saves nothing"):
        check(text in out, text, out)


def test_article_004_savings_table():
    """The table's rows, each as a saving of this job: 16 bits, accumulation, checkpointing, 8 bits, offload, LoRA."""
    answer = json.loads(run("plan", "--preset", "llama-2-7b", "--precision", "fp32", "--batch", 4, "--json").stdout)
    saves = {r["name"]: r["saves_bytes"] for r in answer["remedies"]}
    for name in ("16-bit weights and gradients, fp32 master", "micro-batch of 1, accumulate gradients",
                 "checkpointing, full", "8-bit Adam", "optimizer states on the CPU", "LoRA, rank 16, all matrices"):
        check(saves.get(name, 0) > 0, name, saves)


def test_bad_plans():
    refused("plan")
    refused("plan", "--preset", "no-such-model")
    refused("plan", "--preset", "gpt2", "--config", "x.json")
    refused("plan", "--config", "/no/such/file.json")
    refused("plan", "--preset", "gpt2", "--batch", "0")
    refused("plan", "--preset", "gpt2", "--batch", "-4")
    refused("plan", "--preset", "gpt2", "--batch", "1e30")
    refused("plan", "--preset", "gpt2", "--batch", "many")
    refused("plan", "--preset", "gpt2", "--batch")
    refused("plan", "--preset", "gpt2", "--batch", "2", "--batch", "4")
    refused("plan", "--preset", "gpt2", "--seq", "100000")
    refused("plan", "--preset", "gpt2", "--heads", "7")
    refused("plan", "--preset", "llama-2-7b", "--kv-heads", "5")
    refused("plan", "--preset", "gpt2", "--gpu", "abacus")
    refused("plan", "--preset", "gpt2", "--gpu-memory", "lots")
    refused("plan", "--preset", "gpt2", "--precision", "int3")
    refused("plan", "--preset", "gpt2", "--precision", "fp32", "--fp16")
    refused("plan", "--preset", "gpt2", "--quantize", "nf4")
    refused("plan", "--preset", "gpt2", "--lora-targets", "q")
    refused("plan", "--preset", "gpt2", "--lora-rank", "8", "--lora-targets", "z")
    refused("plan", "--preset", "gpt2", "--frobnicate")
    refused("plan", "--preset", "gpt2", "extra")
    refused("plan", "--layers", "2", "--hidden", "1e300", "--heads", "2", "--ffn", "8", "--vocab", "10")
    refused("plan", "--layers", "100000", "--hidden", "16777216", "--heads", "2", "--ffn", "8", "--vocab", "10")


def test_contradictions():
    gpt2 = ("plan", "--preset", "gpt2")
    refused(*gpt2, "--parameters", "7B")
    refused(*gpt2, "--family", "llama")
    refused(*gpt2, "--sharding", "none", "--gpus", "8")
    refused(*gpt2, "--sharding", "zero3", "--gpus", "1")
    refused(*gpt2, "--sharding", "zero3")
    check(run(*gpt2, "--sharding", "zero3", "--sweep", "gpus").returncode == 0, "zero3 over how many")
    refused(*gpt2, "--sequence-parallel")
    refused(*gpt2, "--expert-parallel", "2")
    refused(*gpt2, "--tensor-parallel", "5")
    refused(*gpt2, "--pipeline-parallel", "13")
    refused(*gpt2, "--context-parallel", "7")
    refused(*gpt2, "--offload", "--optimizer", "adamw-8bit-paged")
    refused(*gpt2, "--hold-outputs", "--loss-chunks", "4")
    refused(*gpt2, "--l2-decay", "--optimizer", "lion")
    refused(*gpt2, "--loss-chunks", "100000")
    refused(*gpt2, "--lora-rank", "100000")
    refused(*gpt2, "--formula", "article", "--sweep", "batch")
    refused(*gpt2, "--config", "x.json", "--preset", "gpt2")
    refused(*gpt2, "--tied", "--tied")
    refused(*gpt2, "--tied=no")
    refused(*gpt2, "--batch=2", "--batch", "3")
    refused(*gpt2, "--batch=")
    refused(*gpt2, "--seq", "nan")
    refused(*gpt2, "--seq", "1e400")
    refused(*gpt2, "--seq", "0x10000000000000000")
    refused(*gpt2, "--gpu-memory", "0")
    refused(*gpt2, "--gpu-memory", "-5G")
    refused("plan", "--preset", "vit-b-16", "--seq", "77")
    refused("plan", "--preset", "t5-small", "--tensor-parallel", "2", "--sequence-parallel")
    refused("plan", "--preset", "llama-2-7b", "--seq", "100000000", "--batch", "16777216")


def test_by_formula():
    """What no run of these tests has is said to be a formula."""
    out = run("plan", "--preset", "mixtral-8x7b", "--expert-parallel", 8, "--optimizer", "adamw-4bit")
    check("By formula alone, held against no run: expert parallel, 4-bit states." in out.stdout, out.stdout[:300])
    check("By formula" not in run("plan", "--preset", "llama-2-7b", "--tensor-parallel", 4).stdout, "tensor parallel is")


def test_bad_configs():
    sizes = '"num_hidden_layers":2,"hidden_size":64,"num_attention_heads":4,"intermediate_size":128'
    texts = [
        "", "[]", "{", "\xef\xbb\xbf{}", '{"model_type":"llama",' + sizes + ',"hidden_size":1}',
        '{"model_type":"llama", /* a comment */ ' + sizes + "}", '{"model_type":"alien",' + sizes + "}",
        '{"model_type":"llama","num_key_value_heads":3,' + sizes + "}",
        '{"model_type":"llama","vocab_size":1e99,' + sizes + "}", "[" * 100000,
        '{"model_type":"llama","vocab_size":' + "9" * 500 + "," + sizes + "}",
        " ", "\0", "7", "null", '"llama"', "{}", "{" * 100000, '{"a":' * 100000, '{"model_type":"llama"}',
        '{"model_type":7,' + sizes + "}", '{"model_type":"llama","vocab_size":NaN,' + sizes + "}",
        '{"model_type":"llama","vocab_size":Infinity,' + sizes + "}",
        '{"model_type":"llama","vocab_size":-5,' + sizes + "}", '{"model_type":"llama","vocab_size":0,' + sizes + "}",
        '{"model_type":"llama","vocab_size":32.5,' + sizes + "}", '{"model_type":"llama","vocab_size":"32",' + sizes + "}",
        '{"model_type":"llama","vocab_size":[1,2],' + sizes + "}", '{"model_type":"llama","head_dim":1e12,' + sizes + "}",
        '{"model_type":"llama","hidden_act":7,' + sizes + "}", '{"model_type":"llama","hidden_act":"swoosh",' + sizes + "}",
        '{"model_type":"llama","tie_word_embeddings":"yes",' + sizes + "}",
        '{"model_type":"llama","attention_dropout":2,' + sizes + "}",
        '{"model_type":"llama","architectures":"x",' + sizes + "}", '{"model_type":"llama","architectures":[7],' + sizes + "}",
        '{"model_type":"mistral","num_key_value_heads":4,"sliding_window":"a",' + sizes + "}",
        '{"model_type":"deepseek_v3","n_shared_experts":-3,' + sizes + "}",
        '{"model_type":"deepseek_v3","n_shared_experts":"many",' + sizes + "}",
        '{"model_type":"deepseek_v3","n_shared_experts":1e9,' + sizes + "}",
        '{"model_type":"mixtral","num_key_value_heads":4,"num_experts_per_tok":9,' + sizes + "}",
        '{"model_type":"llama","hidden_size":66,"num_attention_heads":4,"num_hidden_layers":2,"intermediate_size":128}',
        '{"model_type":"llama","num_hidden_layers":1e12,"hidden_size":64,"num_attention_heads":4}',
        '{"model_type":"llava","text_config":{"model_type":"llama",' + sizes + "}}",
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "config.json"
        for text in texts:
            path.write_bytes(text.encode("latin-1"))
            refused("plan", "--config", path)
        path.write_bytes(b" " * (5 << 20))
        refused("plan", "--config", path)
        os.truncate(path, 1 << 30)
        refused("plan", "--config", path)
        refused("plan", "--config", folder)
        pipe = pathlib.Path(folder) / "pipe"
        os.mkfifo(pipe)
        refused("plan", "--config", pipe)
        refused("plan", "--config", "/dev/zero")
        odd = os.path.join(os.fsencode(folder), b"\xff.json")
        with open(odd, "w") as file:
            file.write('{"model_type":"gpt2"' + ',"n_layer":2,"n_embd":64,"n_head":4}')
        out = run("plan", "--json", "--config", os.fsdecode(odd))
        check(out.returncode == 0 and json.loads(out.stdout)["model"]["layers"] == 2, out.stderr)
        path.write_text('{"model_type":"alien"}')
        out = run("plan", "--config", path)
        check("num_hidden_layers" in out.stderr and "hidden_size" in out.stderr, out.stderr)
    good = run("plan", "--layers", 2, "--hidden", 64, "--heads", 4, "--ffn", 128, "--vocab", 100)
    check(good.returncode == 0, good.stderr)


def test_float():
    out = run("float", "-1e-8", "--scale", "1024", "--format", "fp16", "--json")
    entry = json.loads(out.stdout)["formats"][0]
    check(entry["event"] == "underflow" and entry["scaled"]["event"] == "subnormal" and entry["sign"] == 1, entry)
    check("65504" in run("float", "--table").stdout)
    for words in (("--table",), ("6e-8", "--scale", "1024")):
        check(all(len(line) <= 100 and line == line.rstrip() for line in run("float", *words).stdout.splitlines()))
    out = run("float", "6e-8", "--scale", "1024").stdout
    check(out.splitlines()[0].split() == "6e-8: kept by fp32 tf32 bf16; with fewer bits by fp16; becomes 0 in fp8-e4m3"
          " fp8-e5m2".split(), out)
    check(out.splitlines()[1].startswith("6e-8 x 1024: kept by fp32 tf32 bf16 fp16"), out)
    check(json.loads(run("float", "1e400", "--json").stdout)["value"] == "Infinity")
    refused("float")
    refused("float", "abc")
    refused("float", "1", "--scale", "-2")
    refused("float", "1", "--format", "fp12")
    refused("float", "1", "--table")


def test_help():
    for command in ("plan", "float", "compare", "extrapolate"):
        out = run(command, "--help")
        check(out.returncode == 0 and out.stdout.startswith("usage:"), command)
        check(max(map(len, out.stdout.splitlines())) <= 92, command, "is too wide")


def test_bad_runs():
    with tempfile.TemporaryDirectory() as folder:
        refused("compare")
        refused("compare", folder)
        refused("compare", folder + "/none")
        refused("extrapolate", folder + "@1x512", "--batch", "2", "--seq", "512")
        refused("extrapolate", folder + "@1x512", folder + "@1by512", "--batch", "2", "--seq", "512")
        refused("extrapolate", folder + "@1x512", folder + "@0x512", "--batch", "2", "--seq", "512")


for name, test in sorted(globals().items()):
    if name.startswith("test_"):
        test()
print("failures:", failures)
sys.exit(failures > 0)

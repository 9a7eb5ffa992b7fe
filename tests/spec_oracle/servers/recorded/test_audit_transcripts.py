"""``spec-oracle audit-transcripts``: files of completions are judged without the server that made them."""

import json
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lab.benchmarks.loopback import serving
from spec_oracle.cli import main
from spec_oracle.servers.recorded.checks import Transcripts
from spec_oracle.servers.recorded.transcripts import read_all
from tests.spec_oracle.servers.client.stand_in import StandIn, answering
from tests.strategies import at_night, by_day

BODY = {"temperature": 1.0, "top_k": 0}


def lines(count, defect="", *, rows=True, model=None, asked=BODY, **changes):
    """Completions of the stand-in with the rows of its models at `BODY`, and what it reports of them."""
    model, found = model or StandIn(defect), []
    for _ in range(count):
        prompt = (1, 2)
        tokens, _, _ = model.text(prompt, 64, asked)
        places = [(*prompt, *tokens[:place]) for place in range(len(tokens))]

        def listed(which, places=places):
            laws = (model.law(context, BODY, which) for context in places)
            return [{token: math.log(p) for token, p in enumerate(law) if p} for law in laws]

        line = {"prompt": prompt, "tokens": tokens, "sampling": {"temperature": 1.0}}
        if rows:
            target = listed("target")
            logs = [row[token] for row, token in zip(target, tokens, strict=True)]
            line |= {"rows": target, "draft_rows": listed("draft"), "logprobs": logs}
        found.append(line | changes)
    return found


def written(path, found):
    path.write_text("".join(json.dumps(line) + "\n" for line in found))
    return str(path)


def report(capsys, *arguments):
    code = main(["audit-transcripts", *arguments, "--format", "json"])
    (subject,) = json.loads(capsys.readouterr().out)["subjects"]
    return code, subject, {check["name"]: check for check in subject["checks"]}


@pytest.mark.parametrize(
    ("defect", "count", "verdict"), [("", 60, "lossless"), ("corrects-from-p", 200, "lossy")]
)
def test_completions_are_judged_by_the_rows_they_hold(defect, count, verdict, tmp_path, capsys):
    file = written(tmp_path / "some.jsonl", lines(count, defect))
    code, subject, checks = report(capsys, file, "--detect", "0.4")
    assert (code, subject["verdict"]) == (int(bool(defect)), verdict)
    assert checks["logprobs"]["status"] == "passed"
    assert f"{count} completions" in checks["long-texts"]["detail"]


def cut(line, end):
    """Return a line of which only the first tokens were recorded, as before a retry."""
    parts = ("tokens", "rows", "draft_rows", "logprobs")
    return {key: value[:end] if key in parts else value for key, value in line.items()}


RIGHT = lines(30)
COPIED = {
    "the whole file": RIGHT * 7,
    "other fields": [
        {"id": n, "time": n / 7, **dict(reversed(line.items()))} for n in range(7) for line in RIGHT
    ],
    "retries": [some for line in RIGHT for some in (*[cut(line, 20)] * 3, *[cut(line, 40)] * 3, line)],
}


@pytest.mark.parametrize("name", by_day(COPIED, ["the whole file"]))
def test_copies_of_right_completions_are_never_lossy_and_no_pass(name, tmp_path, capsys):
    """Counted again and again, chance looks like a defect; by new tokens the rate is 1e-6."""
    code, subject, checks = report(capsys, written(tmp_path / "some.jsonl", COPIED[name]), "--detect", "0.9")
    assert (code, subject["verdict"]) == (2, "inconclusive")
    assert re.match(
        r"1\d\d of 210 completions are equal to one before \(at most \d", checks["long-texts"]["detail"]
    )
    assert "each token was counted once" in checks["long-texts"]["detail"]
    assert checks["logprobs"]["status"] == "passed"


def test_copies_of_wrong_completions_are_lossy(tmp_path, capsys):
    file = written(tmp_path / "some.jsonl", 2 * lines(40, "always-accept"))
    code, _, checks = report(capsys, file, "--detect", "0.2")
    assert code == 1
    assert "each token was counted once" in checks["long-texts"]["detail"]


def test_too_few_are_no_pass(tmp_path, capsys):
    code, subject, checks = report(capsys, written(tmp_path / "few.jsonl", lines(3)))
    assert (code, subject["verdict"]) == (2, "inconclusive")
    assert "record more completions" in checks["long-texts"]["detail"]


def test_wrong_log_probabilities_are_found(tmp_path, capsys):
    found = lines(3)
    for line in found:
        line["logprobs"] = [0.0] * len(line["tokens"])
    _, _, checks = report(capsys, written(tmp_path / "some.jsonl", found))
    assert checks["logprobs"]["status"] == "failed"


def test_a_recorded_audit_can_be_judged_again(tmp_path, capsys):
    file = str(tmp_path / "some.jsonl")
    with answering(StandIn()) as url:
        skipped = ("plain-law", "joint", "shapes", "length", "logprobs", "streams", "batch")
        skip = [word for name in skipped for word in ("--skip", name)]
        # For less than is asked of the file: judged again, completions have other uniforms.
        main(["audit-server", url, "--prompt", "bc", "--detect", "0.3", *skip, "--record", file])
        written = len(Path(file).read_text().splitlines())
        assert f"note: {written} completions of long-texts were written to {file}" in capsys.readouterr().out
    code, subject, _ = report(capsys, file, "--detect", "0.4")
    assert (code, subject["verdict"]) == (0, "lossless")


def test_a_scoring_server_is_a_reference(tmp_path, capsys):
    file = written(tmp_path / "some.jsonl", lines(30, "always-accept", rows=False))
    with answering(StandIn(draft=False)) as url:
        code, _, _ = report(capsys, file, "--server", url)
    assert code == 1


def test_the_report_says_how_much_was_judged_when_time_ran_out(tmp_path, capsys):
    file = written(tmp_path / "some.jsonl", lines(20))
    code, subject, checks = report(capsys, file, "--budget", "1e-9")
    assert (code, subject["verdict"]) == (2, "inconclusive")
    assert "of 1 completion " in checks["long-texts"]["detail"]
    assert "1 of 20 completions were judged in time; raise --budget" in checks["long-texts"]["detail"]


def test_the_report_says_how_much_was_judged_when_the_server_left(tmp_path, capsys, monkeypatch):
    class Mortal(StandIn):
        def respond(self, path, body, name=""):
            gone = sum(self.calls.values()) > 400
            return (503, {}) if gone else super().respond(path, body, name)

    monkeypatch.setattr("time.sleep", lambda _: None)
    file = written(tmp_path / "some.jsonl", lines(30, rows=False))
    with serving(Mortal(draft=False)) as url:
        code, subject, checks = report(capsys, file, "--server", url)
    assert (code, subject["verdict"]) == (2, "inconclusive")
    assert "ended early" in checks["long-texts"]["detail"]
    assert "HTTP 503" in checks["long-texts"]["detail"]


def test_local_weights_are_a_reference(tmp_path, capsys):
    torch = pytest.importorskip("torch")
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {"num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 12}
    network = LlamaForCausalLM(LlamaConfig(hidden_size=16, intermediate_size=16, **sizes)).eval()
    from spec_oracle.servers.checks.distributions import of_weights
    from spec_oracle.servers.recorded.checks import Transcripts
    from spec_oracle.servers.recorded.transcripts import Transcript

    tokens = torch.randint(12, (64,)).tolist()  # nearly the model's: its weights are small
    found = Transcripts([Transcript((1, 2), tuple(tokens))], rows=of_weights(network), noise=0.01)
    found.add(Transcript((1, 2), tuple(tokens)))
    assert found.report("some", 1e-6, 0.1).verdict.value == "inconclusive"
    assert found.judged.evidence.tokens == 63


@pytest.fixture
def followed(tmp_path, capsys, monkeypatch):
    """Report of a file that is followed: between two looks at it come steps, bytes to add or an error."""
    file = tmp_path / "some.jsonl"
    file.write_bytes(b"")

    def reported(steps):
        steps = iter(steps)

        def step(_):
            if not isinstance(coming := next(steps), bytes):
                raise coming
            with file.open("ab") as more:
                more.write(coming)

        monkeypatch.setattr("time.sleep", step)
        return report(capsys, str(file), "--follow", "--detect", "0.9")

    return reported


def as_bytes(found):
    return b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in found)


def test_a_file_that_grows_is_followed_until_it_is_lossy(followed):
    wrong = lines(60, "always-accept")
    steps = [as_bytes(wrong[:1]), as_bytes(wrong[1:30]), as_bytes(wrong[30:])]
    code, _, _ = followed(steps)  # without a step to end it
    assert code == 1


WHOLE = as_bytes([line | {"text": "\N{LINE SEPARATOR}\N{PILE OF POO}"} for line in RIGHT])
HALF = WHOLE.rindex("\N{PILE OF POO}".encode()) + 2
END = KeyboardInterrupt()


@pytest.mark.parametrize(
    ("steps", "code", "count", "words"),
    [
        ([WHOLE[:HALF], WHOLE[HALF:], END], 0, 30, " are as expected"),
        ([WHOLE[:HALF], b"", END], 0, 29, " are as expected"),
        ([WHOLE[:100], b"", WHOLE[100:], END], 0, 30, " are as expected"),
        ([as_bytes(RIGHT[:5]), END], 0, 5, " are as expected"),
        ([WHOLE, b"no json\n"], 2, 30, "; ended early: line 31: not a transcript"),
    ],
    ids=["a begun line ends", "a begun line", "no line at first", "few lines", "a mistake"],
)
def test_a_file_that_grows_is_judged_to_its_end(steps, code, count, words, followed):
    found, subject, checks = followed(steps)
    assert f"{count} recorded completions" in subject["scope"]
    assert words in checks["long-texts"]["detail"]
    assert found == code
    assert ("ended early" in checks["long-texts"]["detail"]) is ("ended early" in words)


def test_a_last_line_that_ends_within_a_character_is_left_out(tmp_path, capsys):
    file = tmp_path / "some.jsonl"
    file.write_bytes(WHOLE[:HALF])
    _, subject, _ = report(capsys, str(file))
    assert "29 recorded completions" in subject["scope"]


def test_noise_that_is_recorded_later_counts():
    few, noisy = (read_all([json.dumps(RIGHT[0] | {"noise": noise})]) for noise in (0.0, 0.1))
    found = Transcripts(few)
    found.add(noisy[0])
    assert found.judged.distributions.noise == 0.1


LOOKS = """
import sys, time
from spec_oracle import cli

def look(seconds, sleep=time.sleep):
    print("looked", file=sys.stderr, flush=True)
    sleep(seconds)

time.sleep = look
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="sends signals of POSIX")
def test_sigterm_ends_the_watch_of_a_file_with_its_report(tmp_path):
    file = tmp_path / "some.jsonl"
    file.write_bytes(WHOLE + WHOLE[:100])
    command = [sys.executable, "-c", LOOKS, "audit-transcripts", str(file), "--follow", "--detect", "0.9"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        while "looked" not in (line := running.stderr.readline()):
            assert line, "it ended before"
        running.terminate()
        out, _ = running.communicate(timeout=10)
    assert running.returncode == 0
    assert "30 completions are as expected" in out


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("no json", "line 1: not a transcript"),
        ('{"prompt": [1]}', "no 'tokens': a line has token ids as 'prompt' and as 'tokens'"),
        ('{"prompt": "Once", "tokens": [2]}', 'prompt: expected a list of token ids, got "Once"'),
        ('{"prompt": [1], "tokens": [2, -1]}', "expected a token id"),
        ('{"prompt": [1], "tokens": [2, 3], "rows": [{}]}', "rows: 1 for 2 tokens"),
        ('{"prompt": [1], "tokens": [2, 3]}', "give a reference"),
        (
            '{"prompt": [1], "tokens": [2], "sampling": {"min_p": 0.1}}',
            "sampling: unknown 'min_p'; known ones",
        ),
        (
            '{"prompt": [1], "tokens": [2], "sampling": {"temperature": 0}}',
            "transcript: temperature: expected",
        ),
        ('{"prompt": [1], "tokens": [2], "sampling": 1}', "transcript: expected an object, got 1"),
        (
            '{"prompt": [1], "tokens": [2], "rows": [{"2": {"logprob": -1}}]}',
            "expected a log-probability, got {",
        ),
        ("", "holds no completion"),
    ],
)
def test_a_mistake_in_the_file_is_one_line(line, words, tmp_path, capsys):
    file = tmp_path / "some.jsonl"
    file.write_text(line)
    assert main(["audit-transcripts", str(file)]) == 3
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "sampling", [None, {"top_k": -1}, {"temperature": 1, "top_k": None, "top_p": None}], ids=str
)
def test_fields_of_requests_that_are_off_may_be_written_as_engines_do(sampling, tmp_path, capsys):
    file = written(tmp_path / "some.jsonl", lines(30, sampling=sampling))
    assert main(["audit-transcripts", file, "--detect", "0.9"]) == 0


def test_completions_of_one_token_say_nothing_of_speculation(tmp_path, capsys):
    line = {"prompt": [1], "tokens": [2], "rows": [{"2": -0.7, "3": -0.7}]}
    assert main(["audit-transcripts", written(tmp_path / "some.jsonl", [line] * 30)]) == 2
    assert "do: record longer completions" in capsys.readouterr().out


def test_a_last_line_that_is_being_written_is_left_out_and_named(tmp_path, capsys):
    file = tmp_path / "some.jsonl"
    written(file, lines(3))
    with file.open("a") as more:
        more.write(json.dumps(lines(1)[0])[:100])
    code, subject, checks = report(capsys, str(file))
    assert code == 2
    assert "of 3 completions" in checks["long-texts"]["detail"]
    assert "the last line of the file is not complete, and was left out" in subject["notes"]


def test_a_mistake_in_another_line_than_the_last_is_named(tmp_path, capsys):
    file = tmp_path / "some.jsonl"
    written(file, lines(2))
    file.write_text("no json\n" + file.read_text())
    assert main(["audit-transcripts", str(file)]) == 3
    assert "line 1: not a transcript" in capsys.readouterr().err


class At(StandIn):
    """Samples at another temperature than it says; its rows are those of the one that it says."""

    heat = 1.0

    def target(self, context, place, body):
        law = [p ** (1 / self.heat) for p in super().target(context, place, body)]
        return [p / sum(law) for p in law]


@pytest.mark.parametrize("heat", [1.5, *at_night(0.7)])
def test_a_wrong_temperature_is_named(heat, tmp_path, capsys):
    model = At(draft=False)
    model.heat = heat
    code, _, checks = report(capsys, written(tmp_path / "some.jsonl", lines(120, model=model)))
    assert code == 1
    found = re.search(r"as if sampled at temperature ([\d.]+), not 1$", checks["long-texts"]["detail"])
    assert float(found[1]) == pytest.approx(heat, rel=0.1)  # by some 2,000 tokens


def test_another_defect_is_not_called_a_temperature(tmp_path, capsys):
    code, _, checks = report(capsys, written(tmp_path / "some.jsonl", lines(40, "always-accept")))
    assert code == 1
    assert "temperature" not in checks["long-texts"]["detail"]


def without_first_token(line):
    """The same completion as of a recorder that loses the first token, and with it its row."""
    return {
        key: value[1:] if key in ("tokens", "rows", "draft_rows", "logprobs") else value
        for key, value in line.items()
    }


def test_rows_that_differ_after_equal_contexts_are_no_pass(tmp_path, capsys):
    """Each token is still a sample of its row: only the contexts show that tokens are missing."""
    found = [without_first_token(line) for line in lines(60)]
    code, subject, checks = report(capsys, written(tmp_path / "some.jsonl", found), "--detect", "0.4")
    assert (code, subject["verdict"]) == (2, "inconclusive")
    assert checks["long-texts"]["status"] == "passed"
    assert (
        "nats after equal prompts and tokens: tokens are missing from the file" in checks["model"]["detail"]
    )


class Tied(StandIn):
    """Its weights are powers of two."""

    def weights(self, context, model):
        return [2.0 ** round(math.log2(w)) for w in super().weights(context, model)]


def with_the_likeliest(line, count):
    """The same completion with ``count`` tokens a row, and the sampled one beside them, as of vLLM."""
    found = dict(line)
    for name in ("rows", "draft_rows"):
        found[name] = [
            {
                token: row[token]
                for token in {*sorted(row, key=row.__getitem__)[len(row) - count :], sampled} & {*row}
            }
            for row, sampled in zip(line[name], line["tokens"], strict=True)
        ]
    return found


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize(("defect", "code"), [("", 0), ("always-accept", 1)])
def test_the_sampled_token_may_be_listed_beside_the_likeliest_ones(defect, code, count, tmp_path, capsys):
    """What is listed must not depend on what was sampled: else no token comes that is not listed."""
    found = [with_the_likeliest(line, count) for line in lines(80, defect)]
    assert {len(row) for line in found for row in line["rows"]} == {count, count + 1}
    found, _, checks = report(capsys, written(tmp_path / "some.jsonl", found), "--detect", "0.4")
    assert found == code
    assert checks["logprobs"]["status"] == "passed"


@pytest.mark.parametrize("defect", ["", "always-accept"])
def test_the_sampled_token_may_be_listed_first_of_those_that_tie(defect, tmp_path, capsys):
    """Logits of bfloat16 often tie; the order of tokens must not depend on what was sampled."""
    model = Tied(defect)
    found = lines(60, model=model)
    for line in found:
        pairs = zip(line["rows"], line["tokens"], strict=True)
        line["rows"] = [{sampled: row[sampled], **row} for row, sampled in pairs]
    code, _, _ = report(capsys, written(tmp_path / "some.jsonl", found), "--detect", "0.5")
    assert code == (1 if defect else 0)


def unfiltered_lines(listed, fields, count, defect=""):
    """Completions under sampling fields, and the likeliest tokens of rows before these, as of vLLM."""
    found = lines(count, defect, asked=BODY | fields, sampling={"temperature": 1.0, **fields})
    return [with_the_likeliest(line, listed) for line in found]


TOO_SHORT = [
    ({"temperature": 0.7}, 120),
    ({"temperature": 1.4}, 200),
    ({"temperature": 0.7, "top_p": 0.6}, 20),
]
"""And as many completions as show that the rows differ from what was sampled."""
ENOUGH = [
    ({"temperature": 0.7}, 8, 40),
    ({"temperature": 0.7, "top_p": 0.6}, 8, 20),
    ({"top_p": 0.6}, 4, 20),
]
"""Fields, tokens that are listed, and completions: with filters these are longer."""


@pytest.mark.parametrize(("fields", "count"), TOO_SHORT)
def test_rows_that_are_too_short_for_a_temperature_do_not_accuse(fields, count, tmp_path, capsys):
    """Whether they are before or after the temperature is not known; read as after it they differ."""
    file = written(tmp_path / "some.jsonl", unfiltered_lines(4, fields, count))
    code, _, checks = report(capsys, file, "--detect", "0.4")
    assert code == 2
    assert "do not tell whether they are before or after temperature" in checks["long-texts"]["detail"]


@pytest.mark.parametrize("rows", ENOUGH, ids=str)
@pytest.mark.parametrize("defect", ["", "always-accept"])
def test_rows_before_temperature_and_filters_are_read_as_such(rows, defect, tmp_path, capsys):
    fields, listed, count = rows
    file = written(tmp_path / "some.jsonl", unfiltered_lines(listed, fields, count, defect))
    assert report(capsys, file, "--detect", "0.5")[0] == (1 if defect else 0)


def test_rows_of_the_sampled_tokens_alone_are_none(tmp_path, capsys):
    """With ``logprobs=0`` vLLM lists the sampled token alone: that says nothing of what else could come."""
    file = written(tmp_path / "some.jsonl", [with_the_likeliest(line, 0) for line in lines(30)])
    assert main(["audit-transcripts", file]) == 3
    assert "rows: they list the sampled tokens alone" in capsys.readouterr().err


class Hotter(StandIn):
    """Samples at four times the temperature."""

    def logits(self, context, body, model):
        return [one / 4 for one in super().logits(context, body, model)]


@pytest.mark.parametrize(
    ("served", "rows", "told"),
    [
        (Hotter(), True, "failed: .* differ by 0.[1-9].*: no speculation is needed to explain this"),
        (Hotter(), False, "failed: 200 first tokens, .* contradict the reference, too: no speculation"),
        (StandIn("always-accept"), True, "passed: .* differ by [0-9.e-]+ from the reference's"),
        *at_night((StandIn("always-accept"), False, "inconclusive: .* record `rows`")),
    ],
    ids=["another model, rows", "another model", "wrong verification, rows", "wrong verification"],
)
def test_another_model_is_distinguished_from_wrong_verification(served, rows, told, tmp_path, capsys):
    """By recorded distributions, or by first tokens: nothing speculates on these."""
    file = written(tmp_path / "some.jsonl", lines(40 if rows else 200, model=served, rows=rows, logprobs=[]))
    with answering(StandIn(draft=False)) as url:
        code, subject, checks = report(capsys, file, "--server", url)
    assert (code, subject["verdict"]) == (1, "lossy")
    model = f"{checks['model']['status']}: {checks['model']['detail']}"
    assert re.match(told, model), model

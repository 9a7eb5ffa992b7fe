#!/usr/bin/env bash
# Judge the rules on a GPU, compile Triton kernels, and time verification: at most 8 minutes, offline.
#
#     [OUT=FOLDER] [SIZE=small] [LIMIT=SECONDS] [PATIENCE=FACTOR] [ONLY=PATTERN] bash lab/benchmarks/gpu_kit/run.sh
#
# Runs in a checkout, or in the folder of `make gpu-kit`. Wheels (KIT, default build/gpu-kit) of packages that the
# machine lacks are installed into a folder of their own. Each part has a time limit, the most important parts come
# first, and a part that fails or is cut off stops no other. Parts whose times are not read run two at a time. After
# each part OUT (default build/gpu) has gpu.json, gpu.md and log.txt so far. PATIENCE multiplies all limits on a slow
# machine; ONLY runs the parts whose names match a regular expression. SIZE=small runs the same on a CPU in small
# sizes, without the parts that need a GPU.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../../.." || exit 3
OUT=${OUT:-build/gpu} SIZE=${SIZE:-large} PATIENCE=${PATIENCE:-1} LIMIT=${LIMIT:-$((470 * ${PATIENCE:-1}))} PYTHON=${PYTHON:-python3}
KIT=${KIT:-$([ -d wheels ] && echo . || echo build/gpu-kit)}
WORK=$(mktemp -d)
mkdir -p "$OUT"
OUT=$(cd "$OUT" && pwd)
missing=()
for wheel in "$KIT"/wheels/*.whl; do # those of packages that the machine has would not fit its other packages
    name=${wheel##*/} name=${name%%-*}
    [ -e "$wheel" ] && ! "$PYTHON" -c "from importlib.metadata import version; version('$name')" 2> /dev/null &&
        missing+=("$wheel")
done
if [ ${#missing[@]} -gt 0 ]; then
    echo "== installed for this run: ${missing[*]##*/}"
    "$PYTHON" -m pip install -q --no-index --no-deps --target "$WORK/packages" "${missing[@]}"
fi
[ -d .engines ] || export SPEC_ORACLE_ENGINES="$KIT/engines"
export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True # several processes share the GPU
export PYTHONPATH="$PWD:$WORK/packages" PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
SECONDS=0
: > "$OUT/log.txt"

gathered() { "$PYTHON" -m lab.benchmarks.gpu_kit.page --gather "$WORK" --output "$OUT"; }

skipped() { printf '%s\tnot run: %s\t0\n' "$1" "$2" >> "$WORK/parts.tsv"; echo "== $1: not run: $2"; }

part() { # NAME SECONDS COMMAND...: what it prints goes to log.txt, how it ended to parts.tsv
    local name=$1 seconds=$(($2 * PATIENCE)) left=$((LIMIT - SECONDS)) started=$SECONDS code log
    shift 2
    if ! [[ $name =~ ${ONLY:-.} ]]; then return; fi
    if [ "$left" -lt 15 ]; then skipped "$name" "the time was over"; return; fi
    if [ "$seconds" -gt "$left" ]; then seconds=$left; fi
    echo "== $name: at most $seconds s, begun after $SECONDS s" | tee -a "$OUT/log.txt"
    log=$(mktemp "$WORK/log.XXXX")
    # INT lets pytest write what it has; a part in the background would ignore it.
    timeout --signal INT --kill-after 8 "$seconds" env --default-signal=INT "$@" > "$log" 2>&1
    code=$?
    cat "$log" >> "$OUT/log.txt"
    [ $code -eq 124 ] && code="cut off after $seconds s"
    [ "$code" = 0 ] && code=done
    printf '%s\t%s\t%s\n' "$name" "$code" $((SECONDS - started)) >> "$WORK/parts.tsv"
    echo "== $name: $code, $((SECONDS - started)) s" | tee -a "$OUT/log.txt"
    gathered >> "$OUT/log.txt" 2>&1
}

tests() { # NAME: arguments of a run of tests that writes NAME.json and NAME.xml
    local name=$1
    shift
    echo "$PYTHON" -m pytest -q -p no:cacheprovider -W default --tb=short --durations=8 --device "$DEVICE" --size "$SIZE" \
        --figures "$WORK/$name" "--junit-xml=$WORK/$name.xml" -o junit_family=xunit1 "$@"
}

MODELS=gpu_tests/test_large_models.py
if [ "$SIZE" = small ]; then DEVICE=cpu MARK="not lm"; else DEVICE=cuda MARK="not lm and not engines"; fi
part "suite float32" 215 $(tests float32 $MODELS) -m "$MARK" -k "planted or rule_emits or target_only"
if [ "$SIZE" = small ]; then
    skipped "compiled Triton kernels" "there is no GPU"
elif [ -n "$(ls "${SPEC_ORACLE_ENGINES:-.engines}" 2> /dev/null)" ]; then
    part "compiled Triton kernels" 75 $(tests kernels gpu_tests/test_kernels.py) -m cuda
else
    skipped "compiled Triton kernels" "their sources were not carried"
fi
part "verification" 80 "$PYTHON" -m lab.benchmarks.gpu_kit.rules --device $DEVICE --size "$SIZE" \
    --json "$WORK/rules.json"
OF_DAY="$MARK and not nightly"
RULES="planted or rule_emits or target_only"
part "suite bfloat16" 120 $(tests bfloat16 $MODELS --dtype bfloat16 -n 2) -m "$OF_DAY" -k "$RULES" &
part "suite float16" 120 $(tests float16 $MODELS --dtype float16 -n 2) -m "$OF_DAY" -k "$RULES" &
wait
part "batches and seeds float32" 120 $(tests texts $MODELS -n 3) -m "$OF_DAY" -k "texts or target_only" &
part "rest of the suite" 120 $(tests rest gpu_tests --ignore $MODELS --ignore gpu_tests/test_kernels.py) \
    -m "$MARK" -n 8 &
wait
gathered
rm -rf "$WORK"
echo "== $SECONDS s in all; $OUT/gpu.json, $OUT/gpu.md, $OUT/log.txt written"

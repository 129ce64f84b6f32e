"""Makes the calls that a test reads and prints how they end, a line each: see sdk/go/driver_test.go."""

import asyncio
import json
import queue
import re
import sys
import threading

import remit

kind = getattr(remit, sys.argv[1])  # Client or AsyncClient
loop, lock, waiting = asyncio.new_event_loop(), threading.Lock(), {}  # for an answer, by request
client, seconds = None, 0.0


def say(**line):
    with lock:
        print(json.dumps(line, default=str), flush=True)


def send(a):
    answers = queue.SimpleQueue()
    waiting[id(answers)] = answers
    say(request=id(answers), seconds=seconds, method=a.method, url=a.url, headers=a.headers, body=(a.body or b"").decode(), timeout=a.timeout)
    answer = answers.get()
    sleep(answer["seconds"])
    if not answer["status"]:
        raise ConnectionError("lost")
    return remit.Answer(answer["status"], answer["retryAfter"], answer["text"].encode(), answer["date"])


def sleep(more):
    global seconds
    seconds += more


def snake(name):
    return re.sub("[A-Z]", lambda m: "_" + m[0].lower(), name)


async def whole(made):
    return [item async for item in made] if hasattr(made, "__aiter__") else await made


def value(call, args, options):
    global client, seconds
    if call == "open":
        fakes, seconds = {"send": send, "now": lambda: seconds, "sleep": sleep}, 0.0
        client = kind(*args, **{name: fakes[name] for name in options.pop("fakes", [])}, **options)
        return None
    name = snake(call)
    if function := {"idle": sleep}.get(name) or getattr(remit, name, None):
        return function(*args)
    if name == "propose":
        options |= args.pop()
    made = getattr(client, name)(*args, **{snake(option): given for option, given in options.items()})
    if kind is remit.AsyncClient:
        made = asyncio.run_coroutine_threadsafe(whole(made), loop).result()
    return list(made) if name == "list" else made


def end(id, call, args, options):
    try:
        ended = {"value": value(call, args or [], options)}
    except (TypeError, ValueError) as e:
        ended = {"error": "invalid", "message": str(e)}
    except Exception as e:
        words = type(e).__name__, getattr(e, "code", ""), getattr(e, "index", None), getattr(e, "tx_hash", ""), *(w for w in ("stored", "settled") if getattr(e, w, None))
        ended = {"error": " ".join(str(word) for word in words if word or word == 0), "message": str(e)}
    say(id=id, seconds=seconds, **ended)


threading.Thread(target=loop.run_forever, daemon=True).start()
for line in sys.stdin:
    command = json.loads(line)
    if "answer" in command:
        waiting.pop(command["answer"]).put(command)
    else:
        threading.Thread(target=end, kwargs=command, daemon=True).start()

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import copyreg
import email.utils
import functools
import hashlib
import json
import math
import random
import re
import threading
import time
import unicodedata
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar, Unpack

from standardwebhooks.webhooks import Webhook as _Verifier

from ._api_gen import AsyncEndpoints, Endpoints
from ._units import amount_of
from .types import Batch, CreateProposalRequest, Entry, Event, Payment, ProposedEntry

# Longer than the API works on a request: then one without an answer commits nothing more.
_LIFETIME = 35.0
# A POST of a payment carries a Remit-Not-After so many seconds ahead. It begins nothing once an answer's Date is later
# than that and the grace.
_AHEAD, _GRACE = 30, 40
_P = TypeVar("_P")  # what a call that pays returns


class Answer(NamedTuple):
    """A whole HTTP answer of any status."""

    status: int
    retry_after: str | None
    body: bytes
    date: str | None = None  # the header Date


class Attempt(NamedTuple):
    """One request. Whoever sends it must not repeat it, or follow redirects."""

    method: str
    url: str
    headers: dict[str, str]
    body: bytes | None
    timeout: float  # seconds


class _Error(Exception):
    def __reduce__(self) -> Any:  # for copy and pickle, which would call __init__ with the message
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


class Refused(_Error):
    """The API refused the request, which started nothing. After proposal_open, the open proposal may still pay.

    code is stable: of a 422 the type of its first problem, "" of a 401. index is that of the refused entry of a batch.
    settled: no earlier request can pay either: only then pay by another way. Without settle, only this client's.
    tx_hash is that of a similar_payment: different_from pays again.
    """

    settled, tx_hash = False, ""

    def __init__(self, status: int, code: str, detail: str, index: int | None) -> None:
        super().__init__(f"refused with {f'{status} {code}'.strip()}: {detail}")
        self.status, self.code, self.detail, self.index = status, code, detail, index


class IntentReused(_Error):
    """The intent belongs to another payment, which may be made, or to a proposal that has ended. The call pays nothing.

    stored is the other payment; None for an ended proposal, before it is signed, or if no look-up found it.
    """

    def __init__(self, intent: str, asked: Batch, stored: Payment | None = None) -> None:
        super().__init__(f"the intent {intent!r} has another payment or ended proposal: asked {asked}, stored {stored}")
        self.intent, self.asked, self.stored = intent, asked, stored


class OutcomeUnknown(_Error):
    """No answer settled the call: it may be carried out, even later. Repeat a payment with the same intent only."""

    def __init__(self, last: Answer | None, cause: Exception | None, pays: bool = True) -> None:
        reason = f"{last.status} {last.body[:300].decode(errors='replace')}" if last else cause or "the deadline passed"
        text = "unknown outcome: repeat a payment with the same intent" if pays else "no final answer"
        super().__init__(f"{text} ({reason})")
        self.last, self.__cause__ = last, cause


def key(intent: str) -> str:
    """Returns the Idempotency-Key of an intent. One that is empty, not Unicode in NFC, or has blanks around it raises
    ValueError: two intents that look the same are two payments."""
    if not isinstance(intent, str) or not intent or not unicodedata.is_normalized("NFC", intent) or any(
        c.isspace() and not "\x1c" <= c <= "\x1f" for c in intent[0] + intent[-1]
    ):
        raise ValueError("no intent: name what is paid, such as an order, in a string in NFC without blanks around it")
    return "sdk1-" + hashlib.sha256(b"remit intent\0" + intent.encode()).hexdigest()


_Stay = type("_Stay", (urllib.request.HTTPRedirectHandler,), {"redirect_request": lambda *_: None})
_proxies = {name: url for name, url in urllib.request.getproxies().items() if name != "http"}  # which is this machine
_opener = urllib.request.build_opener(_Stay, urllib.request.ProxyHandler(_proxies))


def _send(a: Attempt) -> Answer:
    end = time.monotonic() + a.timeout

    def in_time() -> Iterator[bytes]:  # after a slow connection nobody waits any more
        if time.monotonic() > end:
            raise TimeoutError("the connection took too long")
        yield a.body or b""

    request = urllib.request.Request(a.url, a.body and in_time(), a.headers, method=a.method)
    try:
        response = _opener.open(request, timeout=a.timeout)
    except urllib.error.HTTPError as error:
        response = error
    with response:
        body = response.read(16 << 20)
        if response.length:  # read takes an end that came too early for the end
            raise ConnectionError("the answer was cut, or is too long")
        return Answer(response.status, response.headers.get("Retry-After"), body, response.headers.get("Date"))


def _date(answer: Answer | None) -> float:
    """Returns the Date of an answer in Unix seconds, 0 if it has none."""
    try:
        return email.utils.parsedate_to_datetime(answer and answer.date or "").timestamp()
    except ValueError:
        return 0.0


def _carried(send: Callable[[Attempt], Answer], a: Attempt) -> Answer:
    """Sends in a thread of its own, which is left alone when the time is over."""
    answer: concurrent.futures.Future[Answer] = concurrent.futures.Future()

    def work() -> None:
        try:
            answer.set_result(send(a))
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return answer.result(a.timeout)


class _Attempts(NamedTuple):
    open: int = 0
    last: float = -math.inf  # when the last one without an answer ended
    paid: bool = False  # or, as _Memory returns it, forgotten
    until: int = 0  # the latest Remit-Not-After


class _Memory:
    """The attempts to pay that may still be carried out, or were, by Idempotency-Key."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now, self.lock, self.rest, self.forgot = now, threading.Lock(), -math.inf, False
        self.skew = time.time() - now()  # from now to the API's time
        self.keys: dict[str, _Attempts] = {}

    def note(self, key: str, step: int = 0, ended: float | None = None, until: int = 0) -> _Attempts:
        """Counts an attempt that begins (1) or ends (-1), and returns all: the last one ended now if one is open."""
        with self.lock:
            if len(self.keys) > 10_000:
                self.keys = {name: a for name, a in self.keys.items() if a.open or a.last > -math.inf}
                self.forgot = True
                if len(self.keys) > 5_000:
                    self.keys, self.rest = {}, self.now() + _LIFETIME
            a = self.keys.pop(key, _Attempts())
            a = a._replace(open=max(0, a.open + step), until=max(a.until, until))
            if ended is not None:
                a = a._replace(last=max(a.last, ended) if ended > -math.inf else ended, paid=ended == -math.inf)
            if a.open or a.paid or a.last > -math.inf:
                self.keys[key] = a
            rest = self.rest if self.now() - self.rest < _LIFETIME else -math.inf
            return a._replace(last=self.now() if a.open else max(a.last, rest), paid=a.paid or self.forgot)


class _Call:
    """One call of the API until its deadline, in as many attempts as it takes."""

    def __init__(self, over: _Base[Any], timeout: float | None, key: str = "") -> None:
        self.over, self.key, self.pays, self.tries = over, key, key != "", 0
        self.end = over._now() + (over._timeout if timeout is None else timeout)
        if math.isnan(self.end):
            raise ValueError("timeout is not a number")
        self.past, self.until = False, 0  # POSTs carry a time that has passed; the latest Remit-Not-After that was sent
        self.last: Answer | None = None
        self.cause: Exception | None = None

    async def attempt(self, method: str, path: str, body: bytes | None, until: int) -> dict[str, Any]:
        """Makes one attempt, keeps its answer, and returns the JSON object in it."""
        kind = {"Content-Type": "application/json", "Content-Length": str(len(body))} if body else {}
        late = {"Remit-Not-After": str(until)} if self.key else {}
        headers = _with(kind, **{"x-api-key": self.over._key, "Idempotency-Key": self.key}, **late)
        end, self.last, self.status, self.cause = min(self.end, self.over._now() + _LIFETIME), None, 0, None

        def carry() -> Answer:
            if (left := end - self.over._now()) <= 0:
                raise TimeoutError("the deadline passed")
            return _carried(self.over._send, Attempt(method, self.over._url + path, headers, body, left))

        try:
            self.last = await self.over._carry(carry, end - self.over._now())
            self.status = self.last.status
            if date := _date(self.last):
                self.over._memory.skew = date - self.over._now()
            found = json.loads(self.last.body)
            if isinstance(found, dict):
                return found
            raise ValueError("the answer is no JSON object")
        except Exception as error:
            self.cause = error
            return {}

    def refusal(self, found: dict[str, Any]) -> Refused | None:
        """Returns the last answer as a refusal, None if it leaves open what became of the request."""
        detail, code, index = found.get("detail"), found.get("code") or "", found.get("index")
        busy = code == "idempotency_in_progress" or self.pays and code != "proposal_open"
        open = self.status in (408, 429) or self.status == 409 and busy
        if not 400 <= self.status <= 499 or open or detail is None:
            return None
        if isinstance(detail, list) and detail and isinstance(detail[0], dict):
            code, loc = detail[0].get("type", code), detail[0].get("loc") or []
            index = loc[2] if len(loc) > 2 and isinstance(loc[2], int) else index  # body.payments.PLACE
        refused = Refused(self.status, code, detail if isinstance(detail, str) else json.dumps(detail), index)
        refused.tx_hash = found.get("tx_hash") or ""
        return refused

    async def pause(self, seconds: float = 0.0) -> bool:
        """Waits before the next attempt, as Retry-After asks, with backoff. False at once if there is no time."""
        backoff = 2.0 ** min(self.tries, 3)
        self.tries += 1
        after = self.last.retry_after or "" if self.last else ""
        asked = min(float(after), 1e6) if re.fullmatch("[0-9]+", after) else 0.0
        wait = max(seconds, backoff * random.uniform(0.5, 1), asked)
        if self.over._now() + wait >= self.end:
            return False
        if rest := (self.over._sleep or self.over._idle)(wait):
            await rest
        return True

    async def ask(self, wanted: str, method: str, path: str, body: bytes | None = None) -> dict[str, Any]:
        """Repeats payments and reads until an answer settles them, others only after one that nothing was started."""
        kind = {"": object, "data": list}.get(wanted, str)
        while True:
            until = 1 if self.past else int(self.over._clock()) + _AHEAD
            self.until = max(self.until, until)
            self.over._memory.note(self.key, 1, None, until)
            ended: float | None = self.over._now() + _LIFETIME  # at the latest, of one that is interrupted
            try:
                found = await self.attempt(method, path, body, until)
                whole = self.cause is None and 200 <= self.status <= 299 and isinstance(found.get(wanted), kind)
                nothing = self.status == 429 or self.status == 503 and found.get("code") == "payment_rail_unavailable"
                refusal = self.refusal(found)
                lost = not (whole or nothing or refusal)
                ended = -math.inf if whole else self.over._now() if lost else None
            finally:
                last = self.over._memory.note(self.key, -1, ended).last
            if whole:
                return found
            late = refusal and self.key and not self.past and refusal.code in ("request_expired", "not_after_invalid")
            stored = path == "/proposals" and refusal and last > -math.inf and refusal.code != "idempotency_key_reused"
            doubt = stored and (self.status in (401, 403, 413) or self.over._now() - last < _LIFETIME)  # by a lost one
            if refusal and not late and not doubt:
                raise refusal
            if lost and not self.pays and (method != "GET" or self.status == 409) or not await self.pause():
                raise OutcomeUnknown(self.last, self.cause, self.pays)

    async def prove(self, refusal: Refused, post: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Repeats a refused payment with a time that has passed, and returns it if it is paid, else a refusal: settled
        once such a request expired that began after a Date later than each Remit-Not-After of the intent and the grace.
        """
        self.past, seen, memory = True, 0.0, self.over._memory
        while True:
            self.tries, self.until = 0, max(self.until, memory.note(self.key).until)
            if not await self.pause(self.until + _GRACE + 1 - self.over._clock()):
                return refusal
            try:
                return await post()
            except Refused as newer:
                if newer.code != "request_expired":
                    return newer
            a = memory.note(self.key)
            if a.open == 0 and seen > max(self.until, a.until) + _GRACE:
                memory.keys.pop(self.key, None)
                refusal.settled = True
                return refusal
            seen = _date(self.last)

    async def settle(self, refusal: Refused, intent: str, asked: Batch, post: Callable[[], Coroutine[Any, Any, Any]], prove: bool) -> Any:
        """Finds out what a refusal means: without prove, by a look-up 35 s after the last unanswered attempt's end."""
        if prove and refusal.code not in ("idempotency_key_reused", "proposal_open"):
            made = await self.prove(refusal, post)
            if not isinstance(made, Refused):
                return made
            if made.settled:
                raise made
            refusal = made
        key, self.key, memory, reused = self.key, "", self.over._memory, refusal.code == "idempotency_key_reused"
        a = memory.note(key)
        self.pays = a.last > -math.inf and refusal.code != "proposal_open"
        if not self.pays and not reused:
            refusal.settled = not prove and not a.paid and refusal.status not in (401, 403, 409, 413)
            raise refusal
        while (wait := memory.note(key).last + _LIFETIME - self.over._now()) > 1e-6:
            if not await self.pause(wait):
                raise OutcomeUnknown(self.last, self.cause)
        try:
            found = (await self.ask("data", "GET", "/transactions?idempotency_key=" + key))["data"]
        except (Refused, OutcomeUnknown):
            raise OutcomeUnknown(self.last, self.cause) if self.pays else IntentReused(intent, asked)
        if found:
            memory.keys[key] = memory.keys.get(key, _Attempts())._replace(paid=True)
        if found and isinstance(found[0], dict) and _same(asked, found[0]):
            if asked.get("asset"):
                return found[0]
            self.key, self.pays = key, True  # of the default asset? The API knows
            try:
                return await post()
            except Refused as newer:
                if newer.code != "idempotency_key_reused":
                    raise OutcomeUnknown(self.last, self.cause)
        raise IntentReused(intent, asked, *found[:1]) if found or reused else refusal


def _same(asked: Batch, stored: Any) -> bool:
    """Reports whether what is stored is what was asked for."""
    have = [(str(e.get("to")).lower(), e.get("amount"), e.get("reference")) for e in stored.get("payments") or [stored]]
    want = [(str(e["to"]).lower(), e["amount"], e.get("reference")) for e in asked["payments"]]
    if (asked.get("asset") or "").lower() not in ("", str(stored.get("asset")).lower()):
        return False
    return have == want and asked.get("reference") == stored.get("reference") and asked.get("metadata", {}) == stored.get("metadata")


def _known(asked: Any, kind: Any, entries: Any, entry: Any) -> None:
    """Raises ValueError for a field that the API would ignore, such as a mistyped one, or for an empty asset."""
    for given, of in [(asked, kind), *((e, entry) for e in entries or ())]:
        if unknown := given.keys() - of.__annotations__.keys():
            raise ValueError(f"unknown fields {sorted(unknown)}: use some of {sorted(of.__annotations__)}")
    if asked.get("asset") == "":
        raise ValueError("the asset is empty: name one of assets(), or None for the default")


def _with(body: Any, **fields: Any) -> Any:
    return body | {name: value for name, value in fields.items() if value}


_URLS = (r"(https://([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])|http://(localhost|127(\.[0-9]{1,3}){3}|\[::1\]))"
         r"(:[1-6]?[0-9]{1,4})?(/[A-Za-z0-9_.~%/-]*)?")


class _Base(Generic[_P]):
    """What the two clients share. They differ in how they wait."""

    def __init__(
        self, url: str, key: str = "", *, timeout: float = 120.0, send: Callable[[Attempt], Answer] = _send,
        now: Callable[[], float] = time.monotonic, sleep: Callable[[float], Any] | None = None,
    ) -> None:
        """url is where the API is; timeout is that of a call, in seconds. send, now and sleep are for tests."""
        if not re.fullmatch(_URLS, url or ""):
            raise ValueError("the URL is unusable: give https://, or http:// to this machine, and a host")
        if not re.fullmatch("[!-~]*", key or ""):
            raise ValueError("the API key has a blank, a line break or a letter that no key has: give it as shown")
        self._url, self._key, self._timeout, self._send, self._now, self._sleep = url.rstrip("/"), key, timeout, send, now, sleep
        self._memory = _Memory(now)

    def _clock(self) -> float:
        return self._now() + self._memory.skew

    def pay(self, intent: str, to: str, amount: int | str, reference: str = "",
            metadata: dict[str, str] | None = None, *, asset: str | None = None, different_from: str = "",
            timeout: float | None = None, settle: bool = False) -> _P:
        """Pays once for an intent (what is paid, such as an order), however often it is called.

        Returns the committed payment. Raises Refused (it started nothing), IntentReused, or OutcomeUnknown: then call
        again with the same intent. After a cancellation, the outcome is unknown. settle makes a call that is refused go
        on until the refusal is settled, some 75 seconds, in its timeout. asset is one of assets(), None the default.
        different_from is the tx_hash of a Refused similar_payment, to pay again.
        """
        entry: Entry = {"to": to, "amount": amount, "reference": reference}
        return self._run(self._pay(intent, False, [entry], reference, metadata, asset, timeout, settle, different_from))

    def pay_many(self, intent: str, payments: Sequence[Entry], reference: str = "", metadata: dict[str, str] | None = None, *,
                 asset: str | None = None, timeout: float | None = None, settle: bool = False) -> _P:
        """Is pay for a batch: all its payments are made, or none."""
        return self._run(self._pay(intent, True, payments, reference, metadata, asset, timeout, settle))

    def propose(self, intent: str, *, timeout: float | None = None, **asked: Unpack[CreateProposalRequest]) -> Any:
        """Proposes the payment of an intent, for another key to approve or a later time, and returns the Proposal.

        It is repeated as pay is, with which it shares its intents: one of them pays. Raises Refused or OutcomeUnknown.
        """
        _known(asked, CreateProposalRequest, asked.get("payments"), ProposedEntry)
        for amount in [asked.get("amount") or 0, *(entry["amount"] for entry in asked.get("payments") or [])]:
            amount_of(amount)
        return self._run(_Call(self, timeout, key(intent)).ask("id", "POST", "/proposals", json.dumps(asked).encode()))

    def wait(self, payment: Payment | str, *, timeout: float | None = None) -> _P:
        """Returns a payment once it is confirmed or failed. Raises OutcomeUnknown if it is pending at the deadline."""
        return self._run(self._ended(payment if isinstance(payment, str) else payment["tx_hash"], timeout))

    async def _pay(self, intent: str, many: bool, payments: Sequence[Entry], reference: str, metadata: Any,
                   asset: str | None, timeout: float | None, settle: bool, different_from: str = "") -> Any:
        _known({"asset": asset}, Batch, payments, Entry)
        entries = [_with({"to": p["to"], "amount": amount_of(p["amount"])}, reference=p.get("reference")) for p in payments]
        batch = _with({"payments": entries}, reference=reference, metadata=metadata, asset=asset)
        one = _with(entries[0], metadata=metadata, asset=asset, different_from=different_from) if not many else batch
        call, body = _Call(self, timeout, key(intent)), json.dumps(one).encode()
        asked = json.loads(json.dumps(batch))  # which the caller may change meanwhile
        post = functools.partial(call.ask, "tx_hash", "POST", "/send-payments" if many else "/send-payment", body)
        try:
            return await post()
        except Refused as refusal:
            return await call.settle(refusal, intent, asked, post, settle)

    async def _ended(self, tx_hash: str, timeout: float | None) -> Any:
        call = _Call(self, timeout)
        while (found := await call.ask("tx_hash", "GET", "/transaction/" + urllib.parse.quote(tx_hash, safe="")))["status"] == "pending":
            call.tries = 0
            if not await call.pause(1.0):
                raise OutcomeUnknown(call.last, call.cause, False)
        return found

    def _request(self, wanted: str, method: str, path: str, body: Any = None) -> Any:
        return self._run(_Call(self, None).ask(wanted, method, path, None if body is None else json.dumps(body).encode()))

    async def _items(self, path: str, filters: dict[str, Any]) -> AsyncIterator[Any]:
        query: dict[str, Any] | None = {name: value for name, value in filters.items() if value is not None}
        while query is not None:
            page = await _Call(self, None).ask("data", "GET", f"{path}?{urllib.parse.urlencode(query)}")
            for item in page["data"]:
                yield item
            query = {"cursor": page["next_cursor"]} if page.get("next_cursor") else None


class Client(_Base[Payment], Endpoints):
    """One merchant, or a caller without a key. Many threads may use it at once."""

    _idle = staticmethod(time.sleep)

    def _run(self, call: Any) -> Any:  # of which nothing awaits
        try:
            call.send(None)
        except StopIteration as end:
            return end.value

    async def _carry(self, carry: Callable[[], Answer], _: float) -> Answer:
        return carry()

    def _pages(self, path: str, filters: dict[str, Any]) -> Iterator[Any]:
        items = self._items(path, filters)
        with contextlib.suppress(StopAsyncIteration):
            while True:
                yield self._run(anext(items))


class AsyncClient(_Base[Coroutine[Any, Any, Payment]], AsyncEndpoints):
    """Is Client for asyncio: its methods return coroutines. It makes requests in threads."""

    _idle, _pages = staticmethod(asyncio.sleep), _Base._items
    _run = staticmethod(lambda call: call)

    async def _carry(self, carry: Callable[[], Answer], left: float) -> Answer:
        return await asyncio.wait_for(asyncio.to_thread(carry), left)


def verify_webhook(secret: str, body: bytes | str, headers: Any) -> Event:
    """Returns the event of a raw body that was signed with the secret in the last five minutes; any other raises."""
    _Verifier(secret).verify(body, dict(headers.items()))
    return json.loads(body)  # type: ignore[no-any-return]

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from typing import Any, NamedTuple

from standardwebhooks.webhooks import Webhook as _Verifier

from ._api import AsyncEndpoints, Endpoints
from ._units import amount_of
from .types import Batch, Entry, Event, Payment

# Longer than the API works on a request: then one without an answer commits nothing more.
_LIFETIME = 35.0


class Answer(NamedTuple):
    """A whole HTTP answer of any status."""

    status: int
    retry_after: str | None
    body: bytes


class Attempt(NamedTuple):
    """One request. Whoever sends it must not repeat it, or follow redirects."""

    method: str
    url: str
    headers: dict[str, str]
    body: bytes | None
    timeout: float  # seconds


class Refused(Exception):
    """The API refused the request, which started nothing.

    code is stable: of a 422 the type of its first problem, "" of a 401. index is that of the refused entry of a batch.
    """

    def __init__(self, status: int, code: str, detail: str, index: int | None) -> None:
        super().__init__(f"refused with {status} {code}: {detail}")
        self.status, self.code, self.detail, self.index = status, code, detail, index


class IntentReused(Exception):
    """The intent is already that of a payment with other content.

    stored is None if it is not signed yet, or could not be looked up.
    """

    def __init__(self, intent: str, asked: Batch, stored: Payment | None = None) -> None:
        super().__init__(f"the intent {intent!r} is that of another payment: asked {asked}, stored {stored}")
        self.intent, self.asked, self.stored = intent, asked, stored


class OutcomeUnknown(Exception):
    """No answer settled the call: it may be carried out, even later. Repeat a payment with the same intent only."""

    def __init__(self, last: Answer | None, cause: Exception | None) -> None:
        reason = f"{last.status} {last.body[:300]!r}" if last else cause or "the deadline passed"
        super().__init__(f"unknown outcome: repeat a payment with the same intent ({reason})")
        self.last, self.__cause__ = last, cause


def key(intent: str) -> str:
    """Returns the Idempotency-Key of an intent. One that is empty, or not well-formed Unicode, raises ValueError."""
    if not isinstance(intent, str):
        raise TypeError("an intent is a string that names what is paid, such as an order")
    if not intent:
        raise ValueError("no intent: name what is paid, such as an order")
    return "sdk1-" + hashlib.sha256(b"remit intent\0" + intent.encode()).hexdigest()


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


_opener = urllib.request.build_opener(_NoRedirect)


def _send(a: Attempt) -> Answer:
    end = time.monotonic() + a.timeout
    try:
        response = _opener.open(urllib.request.Request(a.url, a.body, a.headers, method=a.method), timeout=a.timeout)
    except urllib.error.HTTPError as error:
        response = error
    body = b""
    with response:
        while chunk := response.read1(1 << 16):
            body += chunk
            if time.monotonic() > end or len(body) > 16 << 20:
                raise TimeoutError("the answer took too long")
        if response.length:  # read1 takes an end that came too early for the end
            raise ConnectionError("the answer was cut")
        return Answer(response.status, response.headers.get("Retry-After"), body)


# Steps are the attempts and waits (in seconds) of a call. A client carries them out and sends back their answers, or
# the exceptions instead.
Steps = Generator["Attempt | float", "Answer | Exception | None", Any]


class _Call:
    """One call of the API until its deadline, in as many attempts as it takes."""

    def __init__(self, over: _Base, pays: bool, timeout: float | None) -> None:
        self.over, self.pays, self.tries = over, pays, 0
        self.end = over._now() + (over._timeout if timeout is None else timeout)
        self.last: Answer | None = None
        self.cause: Exception | None = None
        self.unanswered: float | None = None  # when the last attempt ended that may have an effect

    def attempt(self, method: str, path: str, body: bytes | None = None, idempotency_key: str = "") -> Steps:
        """Makes one attempt, keeps its answer, and returns the JSON in it."""
        headers = {"x-api-key": self.over._key} if self.over._key else {}
        if idempotency_key:
            headers["Idempotency-Key"] = idempotency_key
        if body is not None:
            headers["Content-Type"] = "application/json"
        left = self.end - self.over._now()
        answer: Any = TimeoutError("the deadline passed")
        if left > 0:
            answer = yield Attempt(method, self.over._url + path, headers, body, min(_LIFETIME, left))
        self.last, self.cause = (None, answer) if isinstance(answer, Exception) else (answer, None)
        try:
            return json.loads(self.last.body) if self.last else None
        except (ValueError, RecursionError) as error:
            self.cause = error
            return None

    @property
    def status(self) -> int:
        return self.last.status if self.last else 0

    def refusal(self, found: Any) -> Refused | None:
        """Returns the last answer as a refusal, None if it leaves open what became of the request."""
        detail = found.get("detail") if isinstance(found, dict) else None
        if not 400 <= self.status <= 499 or self.status in (408, 429) or detail is None:
            return None
        code, index = found.get("code") or "", found.get("index")
        if self.status == 409 and (self.pays or code == "idempotency_in_progress"):
            return None
        if isinstance(detail, list) and detail and isinstance(detail[0], dict):
            code, loc = detail[0].get("type", code), detail[0].get("loc") or []
            index = loc[2] if len(loc) > 2 and isinstance(loc[2], int) else index  # body.payments.PLACE
        return Refused(self.status, code, detail if isinstance(detail, str) else json.dumps(detail), index)

    def pause(self, seconds: float = 0.0) -> Generator[float, None, bool]:
        """Waits before the next attempt, as Retry-After asks, with backoff. False at once if the deadline comes first."""
        backoff = 2.0 ** min(self.tries, 3)
        self.tries += 1
        after = self.last.retry_after or "" if self.last else ""
        asked = float(after) if re.fullmatch("[0-9]{1,6}", after) else 0.0
        wait = max(seconds, backoff * random.uniform(0.5, 1), asked)
        if self.over._now() + wait >= self.end:
            return False
        yield wait
        return True

    def unknown(self) -> OutcomeUnknown:
        return OutcomeUnknown(self.last, self.cause)

    def ask(self, wanted: str, method: str, path: str, body: bytes | None = None, idempotency_key: str = "") -> Steps:
        """Repeats payments and reads until an answer settles them, others only after one that nothing was started."""
        while True:
            found = yield from self.attempt(method, path, body, idempotency_key)
            if 200 <= self.status <= 299 and isinstance(found, dict) and (not wanted or isinstance(found.get(wanted), str)):
                return found
            code = found.get("code") if isinstance(found, dict) else None
            if self.status != 429 and not (self.status == 503 and code == "payment_rail_unavailable"):
                if refusal := self.refusal(found):
                    raise refusal
                self.unanswered = self.over._now()
                if not self.pays and (method != "GET" or self.status == 409):
                    raise self.unknown()
            if not (yield from self.pause()):
                raise self.unknown()

    def settle(self, refusal: Refused, idempotency_key: str, intent: str, asked: Batch) -> Steps:
        """Finds out what a refusal means.

        An earlier attempt without an answer may commit the payment, until a look-up 35 s later finds nothing.
        """
        reused, sure = refusal.code == "idempotency_key_reused", self.unanswered is None
        if sure and not reused:
            raise refusal
        wait = 0.0 if self.unanswered is None else max(0.0, self.unanswered + _LIFETIME - self.over._now())
        first = sure
        while first or (yield from self.pause(wait)):
            first, wait = False, 0.0
            found = yield from self.attempt("GET", "/transactions?idempotency_key=" + idempotency_key)
            if self.status == 200 and isinstance(found, dict) and isinstance(found.get("data"), list):
                stored: Any = found["data"][0] if found["data"] else None
                if isinstance(stored, dict) and _same(asked, stored):
                    return stored
                raise IntentReused(intent, asked, stored) if stored or reused else refusal
            if self.refusal(found) or sure and self.status == 409:
                break
        raise IntentReused(intent, asked) if sure else self.unknown()


def _same(asked: Batch, stored: Any) -> bool:
    """Reports whether a stored payment is what was asked for."""
    have = [(str(e.get("to")).lower(), e.get("amount"), e.get("reference")) for e in stored.get("payments") or [stored]]
    want = [(str(e["to"]).lower(), e["amount"], e.get("reference")) for e in asked["payments"]]
    return have == want and asked.get("reference") == stored.get("reference") and asked.get("metadata", {}) == stored.get("metadata")


def _with(body: Any, **fields: Any) -> Any:
    return body | {name: value for name, value in fields.items() if value}


class _Base:
    """What the two clients share. They differ in how they carry out steps."""

    def __init__(
        self, url: str, key: str = "", *, timeout: float = 120.0, send: Callable[[Attempt], Any] = _send,
        now: Callable[[], float] = time.monotonic, sleep: Callable[[float], Any] | None = None,
    ) -> None:
        """url is where the API is; timeout is that of a call, in seconds. send, now and sleep are for tests."""
        self._url, self._key, self._timeout, self._send, self._now, self._sleep = url.rstrip("/"), key, timeout, send, now, sleep

    def _pay(self, intent: str, path: str, body: Any, asked: Batch, timeout: float | None) -> Steps:
        idempotency_key, call, text = key(intent), _Call(self, True, timeout), json.dumps(body).encode()
        asked = json.loads(json.dumps(asked))  # which the caller may change meanwhile
        try:
            return (yield from call.ask("tx_hash", "POST", path, text, idempotency_key))
        except Refused as refusal:
            return (yield from call.settle(refusal, idempotency_key, intent, asked))

    def _one(self, intent: str, to: str, amount: int | str, reference: str, metadata: dict[str, str] | None, timeout: float | None) -> Steps:
        order = _with({"to": to, "amount": amount_of(amount)}, reference=reference)
        asked = _with({"payments": [order]}, reference=reference, metadata=metadata)
        return self._pay(intent, "/send-payment", _with(order, metadata=metadata), asked, timeout)

    def _many(self, intent: str, payments: Sequence[Entry], reference: str, metadata: dict[str, str] | None, timeout: float | None) -> Steps:
        entries = [_with({"to": p["to"], "amount": amount_of(p["amount"])}, reference=p.get("reference")) for p in payments]
        batch = _with({"payments": entries}, reference=reference, metadata=metadata)
        return self._pay(intent, "/send-payments", batch, batch, timeout)

    def _wait(self, payment: Payment | str, timeout: float | None) -> Steps:
        tx_hash = payment if isinstance(payment, str) else payment["tx_hash"]
        call = _Call(self, False, timeout)
        while True:
            found = yield from call.ask("tx_hash", "GET", "/transaction/" + urllib.parse.quote(tx_hash, safe=""))
            if found["status"] != "pending":
                return found
            call.tries = 0
            if not (yield from call.pause(1.0)):
                raise call.unknown()

    def _steps(self, method: str, path: str, body: Any) -> Steps:
        return _Call(self, False, None).ask("", method, path, None if body is None else json.dumps(body).encode())


class Client(_Base, Endpoints):
    """One merchant, or a caller without a key. Many threads may use it at once."""

    def pay(self, intent: str, to: str, amount: int | str, reference: str = "", metadata: dict[str, str] | None = None, *,
            timeout: float | None = None) -> Payment:
        """Pays once for an intent (what is paid, such as an order), however often it is called.

        Returns the committed payment. Raises Refused (nothing was started), IntentReused, or OutcomeUnknown: then call
        again with the same intent.
        """
        return self._run(self._one(intent, to, amount, reference, metadata, timeout))

    def pay_many(self, intent: str, payments: Sequence[Entry], reference: str = "", metadata: dict[str, str] | None = None, *,
                 timeout: float | None = None) -> Payment:
        """Is pay for a batch: all its payments are made, or none."""
        return self._run(self._many(intent, payments, reference, metadata, timeout))

    def wait(self, payment: Payment | str, *, timeout: float | None = None) -> Payment:
        """Returns a payment once it is confirmed or failed. Raises OutcomeUnknown if it is pending at the deadline."""
        return self._run(self._wait(payment, timeout))

    def _run(self, steps: Steps) -> Any:
        answer = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                return end.value
            try:
                answer = self._send(step) if isinstance(step, Attempt) else (self._sleep or time.sleep)(step)
            except Exception as error:
                answer = error

    def _request(self, method: str, path: str, body: Any = None) -> Any:
        return self._run(self._steps(method, path, body))

    def _pages(self, path: str, filters: dict[str, Any]) -> Iterator[Any]:
        query: dict[str, Any] | None = filters
        while query is not None:
            page = self._request("GET", f"{path}?{urllib.parse.urlencode(query)}")
            yield from page["data"]
            query = {"cursor": page["next_cursor"]} if page["next_cursor"] else None


class AsyncClient(_Base, AsyncEndpoints):
    """Is Client for asyncio. It makes requests in threads of the running loop."""

    async def pay(self, intent: str, to: str, amount: int | str, reference: str = "", metadata: dict[str, str] | None = None, *,
                  timeout: float | None = None) -> Payment:
        """See Client.pay. After a cancellation, the outcome is unknown."""
        return await self._run(self._one(intent, to, amount, reference, metadata, timeout))

    async def pay_many(self, intent: str, payments: Sequence[Entry], reference: str = "", metadata: dict[str, str] | None = None, *,
                       timeout: float | None = None) -> Payment:
        """See Client.pay_many."""
        return await self._run(self._many(intent, payments, reference, metadata, timeout))

    async def wait(self, payment: Payment | str, *, timeout: float | None = None) -> Payment:
        """See Client.wait."""
        return await self._run(self._wait(payment, timeout))

    async def _run(self, steps: Steps) -> Any:
        answer = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                return end.value
            try:
                answer = await (asyncio.to_thread(self._send, step) if isinstance(step, Attempt) else (self._sleep or asyncio.sleep)(step))
            except Exception as error:
                answer = error

    async def _request(self, method: str, path: str, body: Any = None) -> Any:
        return await self._run(self._steps(method, path, body))

    async def _pages(self, path: str, filters: dict[str, Any]) -> AsyncIterator[Any]:
        query: dict[str, Any] | None = filters
        while query is not None:
            page = await self._request("GET", f"{path}?{urllib.parse.urlencode(query)}")
            for item in page["data"]:
                yield item
            query = {"cursor": page["next_cursor"]} if page["next_cursor"] else None


def verify_webhook(secret: str, body: bytes | str, headers: Any) -> Event:
    """Returns the event of a raw body that was signed with the secret in the last five minutes; any other raises."""
    _Verifier(secret).verify(body, dict(headers.items()))
    return json.loads(body)  # type: ignore[no-any-return]

"""A payout service as one writes it in an afternoon: POST /payouts sends an ERC-20 transfer and answers with its hash.

With TABLE=yes it keeps each answer under the request's Idempotency-Key, and gives it again. Requests take turns: two of
one key never run at once, and nonces are used in order.
"""

import os
import sqlite3
from threading import Lock

from eth_account import Account
from fastapi import FastAPI, Header
from pydantic import BaseModel
from web3 import Web3

ABI = [{"type": "function", "name": "transfer", "stateMutability": "nonpayable", "outputs": [{"name": "", "type": "bool"}],
        "inputs": [{"name": "to", "type": "address"}, {"name": "amount", "type": "uint256"}]}]

chain = Web3(Web3.HTTPProvider(os.environ["RPC_URL"]))
wallet = Account.from_key(os.environ["PRIVATE_KEY"])
token = chain.eth.contract(address=Web3.to_checksum_address(os.environ["TOKEN"]), abi=ABI)
db = sqlite3.connect(os.environ["DATABASE"], check_same_thread=False, isolation_level=None)
db.execute("CREATE TABLE IF NOT EXISTS payouts (key TEXT PRIMARY KEY, hash TEXT)")
turn = Lock()
app = FastAPI()


class Payout(BaseModel):
    to: str
    amount: int


@app.post("/payouts", status_code=201)
def pay(asked: Payout, idempotency_key: str = Header()) -> dict[str, str]:
    with turn:
        paid = db.execute("SELECT hash FROM payouts WHERE key = ?", (idempotency_key,)).fetchone()
        if paid and os.environ["TABLE"] == "yes":
            return {"hash": paid[0]}
        transfer = token.functions.transfer(Web3.to_checksum_address(asked.to), asked.amount)
        nonce = chain.eth.get_transaction_count(wallet.address, "pending")
        signed = wallet.sign_transaction(transfer.build_transaction({"from": wallet.address, "nonce": nonce}))
        sent = chain.eth.send_raw_transaction(signed.raw_transaction).to_0x_hex()
        db.execute("INSERT OR REPLACE INTO payouts VALUES (?, ?)", (idempotency_key, sent))
        return {"hash": sent}

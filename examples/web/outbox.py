"""Orders and their messages in one transaction of SQLAlchemy, and the process that publishes the messages.

Run it with::

    pip install nsq-anyio sqlalchemy
    NSQD=127.0.0.1:4150 DATABASE=sqlite:///shop.sqlite3 python outbox.py
"""

import os
import signal
import time

from sqlalchemy import create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, sessionmaker

import nsq_anyio as nsq


class Base(DeclarativeBase):
    """What the tables have in common."""


class Order(Base):
    """An order."""

    __tablename__ = "orders"
    number: Mapped[int] = mapped_column(primary_key=True)


class Outgoing(Base):
    """A message that nsqd does not have yet."""

    __tablename__ = "outgoing"
    id: Mapped[int] = mapped_column(primary_key=True)
    topic: Mapped[str]
    body: Mapped[bytes]


engine = create_engine(os.environ["DATABASE"])
Sessions = sessionmaker(engine)


def place_order(number: int) -> None:
    """Save an order and its message, or neither of them; an application calls it."""
    with Sessions.begin() as session:
        session.add(Order(number=number))
        session.add(Outgoing(topic="orders", body=b"%d" % number))


def publish_some(producer: nsq.sync.Producer) -> int:
    """Publish the oldest messages, and delete their rows; return how many there were.

    If one cannot be published, all rows stay.
    """
    oldest = select(Outgoing).order_by(Outgoing.id).limit(100).with_for_update(skip_locked=True)
    with Sessions.begin() as session:
        rows = session.scalars(oldest).all()
        published = [producer.publish_soon(each.topic, each.body) for each in rows]
        for each, row in zip(published, rows, strict=True):
            each.result()
            session.delete(row)
    return len(rows)


def main() -> None:
    """Publish until SIGINT or SIGTERM."""
    signals: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: signals.append(number))
    with nsq.sync.produce(nsqd=os.environ["NSQD"]) as producer:
        while not signals:
            try:
                more = publish_some(producer)
            except nsq.PublishError as error:
                print("trying again:", error, flush=True)
                more = 0
            if not more:
                time.sleep(0.5)


if __name__ == "__main__":
    Base.metadata.create_all(engine)
    main()
